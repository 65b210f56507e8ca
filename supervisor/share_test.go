package supervisor

import (
	"slices"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

func TestRoomIsSharedBetweenProjects(t *testing.T) {
	line := func(project writ.ProjectID, runs ...writ.RunID) journal.Line {
		return journal.Line{Project: project, Runs: runs}
	}
	for _, tt := range []struct {
		name  string
		room  int
		lines []journal.Line
		sent  map[writ.ProjectID]int
		want  []writ.RunID
	}{
		{"Nobody", 5, nil, nil, nil},
		{"One", 2, []journal.Line{line("a", "1", "1", "2")}, nil, []writ.RunID{"1", "1"}},
		{"OneForOne", 4, []journal.Line{line("a", "1", "2", "3"), line("b", "4", "5", "6")}, nil, []writ.RunID{"1", "4", "2", "5"}},
		{"WhoHasLeastIsFirst", 4, []journal.Line{line("a", "1", "2"), line("b", "3", "4")}, map[writ.ProjectID]int{"a": 3, "b": 1, "c": 9}, []writ.RunID{"3", "4", "1", "2"}},
		{"TheRestIsForWhoHasMore", 4, []journal.Line{line("a", "1"), line("b", "2", "3", "4", "5")}, map[writ.ProjectID]int{"b": 7}, []writ.RunID{"1", "2", "3", "4"}},
		{"NoRoom", 0, []journal.Line{line("a", "1")}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := share(tt.room, tt.lines, tt.sent); !slices.Equal(got, tt.want) {
				t.Errorf("share = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCallsOfATurnKeepTheirPlaceInTheLine(t *testing.T) {
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
		{"NoLine", nil, 1, []writ.RunID{"ours"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := []journal.Line{{Project: "a", Runs: []writ.RunID{"1"}}}
			if tt.runs != nil {
				lines = append(lines, journal.Line{Project: "p", Runs: tt.runs})
			}
			lines = lineUp(lines, "p", "ours", tt.calls)
			if len(lines) != 2 || !slices.Equal(lines[1].Runs, tt.want) {
				t.Errorf("lineUp = %v, want %v", lines, tt.want)
			}
		})
	}
}
