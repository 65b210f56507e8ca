package watch

import (
	"slices"
	"testing"
)

func TestPausesBetweenOrdersDouble(t *testing.T) {
	t.Parallel()
	var r repeats
	var at []int
	for scan := 1; scan <= 240; scan++ {
		var due bool
		if r, due = r.again(); due {
			at = append(at, scan)
		}
	}
	if want := []int{3, 6, 12, 24, 48, 96, 156, 216}; !slices.Equal(at, want) {
		t.Errorf("orders are repeated in scans %v, want %v", at, want)
	}
}
