package supervisor

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

// A report that somebody says again, of an earlier process or from before this supervisor, does not undo what is known since.
func TestReportsOfEarlierProcessesAndSupervisorsCountForNothing(t *testing.T) {
	now := time.Now()
	f := &fleet{keys: make(map[string]writ.NodeID), nodes: map[writ.NodeID]*member{"n": {Node: journal.Node{}}}}
	for _, epoch := range []int64{0, 4} {
		if f.report(&writ.Report{Node: "n", Incarnation: 7, Round: 1, Epoch: epoch}, 5) {
			t.Errorf("a report of a node that has not beaten counts, with epoch %d", epoch)
		}
	}
	f.beat(writ.Beat{Node: "n", Incarnation: 7, Sequence: 1, Epoch: 5}, 5, now, now)
	for _, tt := range []struct {
		name                      string
		incarnation, round, epoch int64
		want                      bool
	}{
		{"an earlier process", 6, 9, 5, false},
		{"from before this supervisor", 7, 9, 4, false},
		{"a new one", 7, 2, 5, true},
		{"the same again", 7, 2, 5, false},
		{"a node of an earlier version", 7, 3, 0, true},
	} {
		if got := f.report(&writ.Report{Node: "n", Incarnation: tt.incarnation, Round: tt.round, Epoch: tt.epoch}, 5); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
