package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The path of a nested list has spare capacity, which the paths of both elements must not share.
func TestRepeatedElementsAreNamedByBothPaths(t *testing.T) {
	f := &Field{Name: "ports", Type: List, Distinct: "elements", Elem: &Field{Type: Int}}
	at := append(make(Path, 0, 8), "rules", 1, "ports")
	c := checker{meaning: true}
	c.list(f, []any{int64(80), int64(443), int64(80)}, at)
	want := []Problem{{
		Path: Path{"rules", 1, "ports", 2}, Reason: WrongValue,
		Message: "rules[1].ports[2] must differ from rules[1].ports[0]: the second one has no effect",
	}}
	if diff := cmp.Diff(want, c.problems); diff != "" {
		t.Error(diff)
	}
}

func TestLongListsAreNotCompared(t *testing.T) {
	limit := int64(2)
	f := &Field{Name: "disks", Type: List, Distinct: "elements", Max: &limit, Elem: &Field{Type: Int}}
	c := checker{meaning: true}
	c.value(f, []any{int64(1), int64(1), int64(1)}, Path{"disks"})
	if len(c.problems) != 1 {
		t.Errorf("the problems are %v, want the number of elements alone", c.problems)
	}
}
