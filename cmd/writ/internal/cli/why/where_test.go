package why

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

func TestExplainFoldsCallsThatWaitAlike(t *testing.T) {
	t.Parallel()
	r := RunReasons{Run: "r", State: api.RunStateRunning, Reason: Reason{Why: "it waits"}}
	for seq := 1; seq <= 2000; seq++ {
		why := "no node has room"
		if seq == 7 || seq == 9 {
			why = "it needs call 1"
		}
		r.Calls = append(r.Calls, callReasons{Seq: seq, Title: "node.ping", State: writ.CallPlanned, Reason: Reason{Why: why, Next: listNodes}})
	}
	want := `run r is running: it waits
  call 1, node.ping, is planned: no node has room
    and 1997 more calls: 2 to 6, 8, 10 to 2000
    next: writ node list
  call 7, node.ping, is planned: it needs call 1
    and 1 more call: 9
    next: writ node list
`
	if got := r.Text(); got != want {
		t.Errorf("the text is\n%.2000s\nwant\n%s", got, want)
	}
}

func TestFailureShowsItsLine(t *testing.T) {
	t.Parallel()
	payload := &identity.Payload{Script: identity.File{Name: "web.tengo", Text: []byte("a := 1\na.b.c = \x1b2\n")}}
	f := &writ.Failure{Error: *writ.Errorf(writ.CodeScriptFailed, "not indexable"), Position: "web.tengo:2:1"}
	const excerpt = "    2 | a.b.c = ?2\n      | ^"
	if got, want := WhereFailed(f, BundleOf(payload)), "\n  at web.tengo:2:1\n"+excerpt; got != want {
		t.Errorf("whereFailed = %q, want %q", got, want)
	}
	if got, want := WhereFailed(f, BundleOf(nil)), "\n  at web.tengo:2:1"; got != want {
		t.Errorf("without the source: %q, want %q", got, want)
	}
	s := &Situation{Run: api.Run{ID: "r", State: api.RunStateFailed, Failure: f}, payload: payload}
	if got := s.Explain().Text(); !strings.Contains(got, excerpt) {
		t.Errorf("explain lacks the line:\n%s", got)
	}
}

// A resume before the missing capacity exists would fail again.
func TestResumeFollowsTheHintOfTheFailure(t *testing.T) {
	t.Parallel()
	f := &writ.Failure{Error: *writ.Errorf(writ.CodeNoCapacity, "no node will do").WithHint("add a node"), Seq: 1}
	now := time.Now()
	s := &Situation{
		Run:   api.Run{ID: "r", State: api.RunStateFailed, Failure: f, Deadline: now.Add(time.Hour)},
		Calls: []writ.Call{{Seq: 1, Operation: "volume.create", State: writ.CallFailed, Error: &f.Error}}, now: now,
	}
	got := s.Explain().Text()
	if !strings.HasSuffix(got, "failed: NO_CAPACITY: no node will do\nfirst: add a node\nthen: writ run resume r\n") {
		t.Errorf("the text is\n%s", got)
	}
	s.now = now.Add(2 * time.Hour)
	got = s.Explain().Text()
	if !strings.Contains(got, "no node will do; add a node") || strings.Contains(got, "then: ") {
		t.Errorf("after the deadline, the text is\n%s", got)
	}
}
