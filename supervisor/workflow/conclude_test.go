package workflow

import (
	"fmt"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// A script that reads the result of a lost call fails in its pass, whose error has no node.
func TestFailureNamesTheLostNode(t *testing.T) {
	t.Parallel()
	failed := func(seq int, err *writ.Error, after ...int) *journal.Call {
		return &journal.Call{Call: writ.Call{Seq: seq, State: writ.CallFailed, Error: err, After: after}}
	}
	for _, tt := range []struct{ position, want string }{{"s.tengo:9:1", "[s.tengo:9:1 s.tengo:12:1]"}, {"s.tengo:2:1", "[s.tengo:12:1]"}} {
		call := failed(1, writ.Errorf(writ.CodeDriverFailed, "no disk"))
		call.Position = "s.tengo:2:1"
		got := (&callList{all: []*journal.Call{call}}).withRootCause(nil,
			writ.Failure{Error: *call.Error, Seq: 1, Position: tt.position, Trace: []string{"s.tengo:12:1"}})
		if trace := fmt.Sprint(got.Trace); got.Position != call.Position || trace != tt.want {
			t.Errorf("read at %s: the failure is at %s, by %s", tt.position, got.Position, trace)
		}
	}
	calls := &callList{all: []*journal.Call{
		failed(1, nodeLost("n1", "n1 is lost")),
		failed(2, writ.Errorf(writ.CodeDependencyFailed, "call 1 did not succeed"), 1),
		failed(3, writ.Errorf(writ.CodeDriverFailed, "no disk")),
	}}
	for name, tt := range map[string]struct {
		failure writ.Failure
		want    writ.NodeID
	}{
		"lost call":         {writ.Failure{Error: writ.Error{Code: writ.CodeNodeLost}, Seq: 1}, "n1"},
		"need of a call":    {writ.Failure{Error: writ.Error{Code: writ.CodeDependencyFailed}, Seq: 2}, "n1"},
		"another failure":   {writ.Failure{Error: writ.Error{Code: writ.CodeDriverFailed}, Seq: 3}, ""},
		"failure of script": {writ.Failure{Error: writ.Error{Code: writ.CodeScriptFailed}}, ""},
	} {
		if got := calls.withRootCause(nil, tt.failure); got.Node != tt.want {
			t.Errorf("%s: the failure names the node %q, want %q", name, got.Node, tt.want)
		}
	}
}
