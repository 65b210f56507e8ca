package placement

import (
	"slices"
	"testing"

	"writ"
)

func TestCapacityIsSharedBetweenProjects(t *testing.T) {
	waits := func(out int, runs ...writ.RunID) Line { return Line{Sent: out, Runs: runs} }
	for _, tt := range []struct {
		name  string
		room  int
		lines []Line
		want  []writ.RunID
	}{
		{"Nobody", 5, nil, nil},
		{"One", 2, []Line{waits(0, "1", "1", "2")}, []writ.RunID{"1", "1"}},
		{"OneForOne", 4, []Line{waits(0, "1", "2", "3"), waits(0, "4", "5", "6")}, []writ.RunID{"1", "4", "2", "5"}},
		{"WhoHasLeastIsFirst", 4, []Line{waits(3, "1", "2"), waits(1, "3", "4")}, []writ.RunID{"3", "4", "1", "2"}},
		{"TheRestIsForWhoHasMore", 4, []Line{waits(0, "1"), waits(7, "2", "3", "4", "5")}, []writ.RunID{"1", "2", "3", "4"}},
		{"ByWeight", 4, []Line{{Weight: 3, Runs: []writ.RunID{"1", "2", "3", "4"}}, waits(0, "5", "6")}, []writ.RunID{"1", "5", "2", "3"}},
		{"NoRoom", 0, []Line{waits(0, "1")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Share(tt.room, tt.lines); !slices.Equal(got, tt.want) {
				t.Errorf("share = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEnqueueKeepsPlaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		runs  []writ.RunID
		calls int
		want  []writ.RunID
	}{
		{"New", []writ.RunID{"other"}, 2, []writ.RunID{"other", "ours", "ours"}},
		{"Waiting", []writ.RunID{"ours", "other"}, 1, []writ.RunID{"ours", "other"}},
		{"Both", []writ.RunID{"ours", "other"}, 2, []writ.RunID{"ours", "other", "ours"}},
		{"Fewer", []writ.RunID{"ours", "ours", "other", "ours"}, 1, []writ.RunID{"ours", "other"}},
		{"Nobody", nil, 1, []writ.RunID{"ours"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Enqueue(tt.runs, "ours", tt.calls); !slices.Equal(got, tt.want) {
				t.Errorf("lineUp = %v, want %v", got, tt.want)
			}
		})
	}
}
