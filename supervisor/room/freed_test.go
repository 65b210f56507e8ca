package room

import (
	"maps"
	"testing"

	"writ"
)

// TestCapacityIsLookedUpOncePerCommit records the room of many steps that end with one commit.
func TestCapacityIsLookedUpOncePerCommit(t *testing.T) {
	r := newFreed()
	r.add("n1", "a")
	r.add("n2", "a")
	r.add("n2", "b")
	want := map[writ.NodeID]writ.RunID{"n1": "a", "n2": ""}
	if got := r.take(); !maps.Equal(got, want) {
		t.Errorf("recorded are %v, want %v", got, want)
	}
	if n := len(r.wake); n != 1 {
		t.Errorf("Run is woken %d times, want once", n)
	}
	if got := r.take(); len(got) > 0 {
		t.Errorf("%v is left", got)
	}
}
