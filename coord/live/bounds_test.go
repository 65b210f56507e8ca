package live

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"writ"
)

func TestHostileReasonIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1<<16)
	r := writ.Reason{
		Code: writ.ReasonCode(long), Node: long, State: long, Run: writ.RunID(long), Call: long, Resource: long, Deployment: long, Datacenter: long,
		Hold:  &writ.HoldReason{Datacenter: long, Project: long, Deployment: long, Operation: long, By: long, Text: long},
		Error: &writ.Error{Code: writ.Code(long), Message: long, Hint: long, Proof: []byte(long)}, By: long, Text: long,
	}
	for range 1000 {
		r.Nodes = append(r.Nodes, writ.NodesReason{Names: []string{long, long}, Code: writ.VerdictCode(long), State: long, Text: long})
	}
	for range 1000 {
		cause := r
		r = writ.Reason{Code: writ.ReasonAway, Cause: &cause}
	}
	leaf := &r
	for leaf.Cause != nil {
		leaf = leaf.Cause
	}
	for name, hostile := range map[string]writ.Reason{"deep": r, "wide": *leaf} {
		text, err := json.Marshal(bounded(hostile, maxReasonDepth))
		if err != nil || len(text) > 256<<10 {
			t.Errorf("%s: it still has %d bytes, %v", name, len(text), err)
		}
		if got := len(bounded(hostile, maxReasonDepth).String()); got > 256<<10 {
			t.Errorf("%s: its sentence has %d bytes", name, got)
		}
	}
	if len(leaf.Nodes) != 1000 || leaf.Nodes[0].Text != long || leaf.Hold.Text != long {
		t.Error("bounded changed the original")
	}
	if small := (writ.Reason{Code: writ.ReasonNode, Node: "n1"}); !reflect.DeepEqual(bounded(small, maxReasonDepth), small) {
		t.Errorf("a small reason became %+v", bounded(small, maxReasonDepth))
	}
}
