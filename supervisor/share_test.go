package supervisor

import (
	"slices"
	"testing"

	"writ"
)

func TestCapacityIsSharedBetweenProjects(t *testing.T) {
	waits := func(out int, runs ...writ.RunID) line { return line{out: out, runs: runs} }
	for _, tt := range []struct {
		name  string
		room  int
		lines []line
		want  []writ.RunID
	}{
		{"Nobody", 5, nil, nil},
		{"One", 2, []line{waits(0, "1", "1", "2")}, []writ.RunID{"1", "1"}},
		{"OneForOne", 4, []line{waits(0, "1", "2", "3"), waits(0, "4", "5", "6")}, []writ.RunID{"1", "4", "2", "5"}},
		{"WhoHasLeastIsFirst", 4, []line{waits(3, "1", "2"), waits(1, "3", "4")}, []writ.RunID{"3", "4", "1", "2"}},
		{"TheRestIsForWhoHasMore", 4, []line{waits(0, "1"), waits(7, "2", "3", "4", "5")}, []writ.RunID{"1", "2", "3", "4"}},
		{"ByWeight", 4, []line{{weight: 3, runs: []writ.RunID{"1", "2", "3", "4"}}, waits(0, "5", "6")}, []writ.RunID{"1", "5", "2", "3"}},
		{"NoRoom", 0, []line{waits(0, "1")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := share(tt.room, tt.lines); !slices.Equal(got, tt.want) {
				t.Errorf("share = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCallsOfAStepKeepTheirPlaceInTheQueue(t *testing.T) {
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
			if got := lineUp(tt.runs, "ours", tt.calls); !slices.Equal(got, tt.want) {
				t.Errorf("lineUp = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSpareCapacityGoesToProjectsWithTheLeast(t *testing.T) {
	for _, tt := range []struct{ slots, sent, own, want int }{
		{64, 128, 128, 0}, // has two for each slot
		{64, 128, 0, 33},  // three quarters of what is left
		{64, 161, 0, 8},
		{64, 170, 0, 1},
		{64, 171, 0, 0},
		{1, 2, 2, 0},
		{1, 2, 0, 1},
		{1, 3, 0, 0},
	} {
		if got := spare(tt.slots, tt.sent, tt.own); got != tt.want {
			t.Errorf("spare(%d slots, %d sent, %d of them its own) = %d, want %d", tt.slots, tt.sent, tt.own, got, tt.want)
		}
	}
}
