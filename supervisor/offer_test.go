package supervisor

import (
	"maps"
	"testing"

	"writ"
)

// Many steps end with one commit, and each of them looked up who waits for the room that it made.
func TestCapacityIsLookedUpOncePerCommit(t *testing.T) {
	r := newFreedNodes()
	r.add("n1", "a")
	r.add("n2", "a")
	r.add("n2", "b")
	want := map[writ.NodeID]writ.RunID{"n1": "a", "n2": ""}
	if got := r.take(); !maps.Equal(got, want) {
		t.Errorf("noted are %v, want %v", got, want)
	}
	if n := len(r.wake); n != 1 {
		t.Errorf("whoever offers is woken %d times, want once", n)
	}
	if got := r.take(); len(got) > 0 {
		t.Errorf("%v is left", got)
	}
}
