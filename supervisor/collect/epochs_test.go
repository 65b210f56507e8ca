package collect

import (
	"testing"

	"writ"
)

func TestMostNodesMarkTheJournal(t *testing.T) {
	t.Parallel()
	serving := []writ.NodeID{"a", "b", "c"}
	e := &epochs{nodes: make(map[writ.NodeID]int64)}
	for i, tt := range []struct {
		node        writ.NodeID
		first, most bool
	}{
		{"a", true, false},
		{"a", false, false},
		{"removed", true, false},
		{"b", true, true},
		{"c", true, false}, // the journal is marked already
	} {
		if first, most := e.add(tt.node, 7, serving); first != tt.first || most != tt.most {
			t.Errorf("step %d of %s: first %v, most %v, want %v, %v", i, tt.node, first, most, tt.first, tt.most)
		}
	}
	e.unmark()
	if _, most := e.add("c", 8, serving); !most {
		t.Error("the mark that could not be written is not tried again")
	}
}
