package fleet

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

func TestShownDiskChangesByHundredths(t *testing.T) {
	t.Parallel()
	const size = 10_000
	for _, tt := range []struct {
		name              string
		shown, free, want int64
	}{
		{"a hundredth less", 6000, 5900, 5900},
		{"less than that", 6000, 5901, 6000},
		{"a little more", 6000, 6099, 6000},
		{"a hundredth more", 6000, 6100, 6100},
		{"almost full", 500, 499, 499},
		{"almost full no more", 499, 500, 500},
		{"still almost full", 499, 450, 499},
	} {
		got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: tt.shown}}, []writ.Disk{{Path: "/a", Bytes: size, Free: tt.free}})
		if len(got) != 1 || got[0].Free != tt.want {
			t.Errorf("%s: %+v, want %d free", tt.name, got, tt.want)
		}
	}
	grown := []writ.Disk{{Path: "/a", Bytes: size + 1, Free: 6001}, {Path: "/b", Bytes: size, Free: 1}}
	if got := steadyDisks([]writ.Disk{{Path: "/a", Bytes: size, Free: 6000}}, grown); !slices.Equal(got, grown) {
		t.Errorf("a disk that grew and a new one: %+v, want %+v", got, grown)
	}
}

func TestOutdatedReportIsIgnored(t *testing.T) {
	now := time.Now()
	f := New([]*journal.Node{{Node: writ.Node{ID: "n"}}}, nil, now)
	for _, epoch := range []int64{0, 4} {
		if f.Findings.Apply(&writ.Report{Node: "n", Incarnation: 7, Round: 1, Epoch: epoch}, 5) {
			t.Errorf("a report before the first beat is applied, with epoch %d", epoch)
		}
	}
	f.Presence.Beat(writ.Beat{Node: "n", Incarnation: 7, Sequence: 1, Epoch: 5}, 5, now, now)
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
		if got := f.Findings.Apply(&writ.Report{Node: "n", Incarnation: tt.incarnation, Round: tt.round, Epoch: tt.epoch}, 5); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
