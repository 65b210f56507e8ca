package fleet

import (
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

func oneNode() []*journal.Node {
	return []*journal.Node{{Node: writ.Node{ID: "n", Name: "n1", Admission: writ.AdmissionApproved}}}
}

func beatAt(f *Fleet, sequence int64, at time.Time) {
	f.Presence.Beat(writ.Beat{Node: "n", Incarnation: 1, Sequence: sequence, Health: writ.Health{
		Slots: 4, Version: "1.2.3", Capacity: writ.Capacity{CPUs: 8, MemoryMiB: 1024}}}, 1, at, at)
}

// The supervisor stores the last beat with the facts about the machine. Placement does not use it.
func TestLastBeatOutlivesSupervisor(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := New(oneNode(), nil, start)
	beatAt(before, 1, start)
	stored := before.Machines.Unstored(BeatEvery)
	if len(stored) != 1 || stored[0].Last == nil {
		t.Fatalf("to store: %+v", stored)
	}
	before.Machines.Stored(stored)
	last := start.Add(5 * time.Second)
	beatAt(before, 2, last)
	if more := before.Machines.Unstored(BeatEvery); len(more) != 0 {
		t.Errorf("each beat is a write: %+v", more)
	}
	before.Members.update("n", func(n *journal.Node) { n.Liveness = writ.LivenessSilent })
	if stored = before.Machines.Unstored(BeatEvery); len(stored) != 1 {
		t.Fatalf("a silent node has %d facts to store", len(stored))
	}

	after := New(oneNode(), stored, start.Add(time.Hour))
	shown := Shown(after.Members)[0]
	if !shown.LastBeat.Equal(last) || shown.Version != "1.2.3" || shown.Slots != 4 || shown.Capacity.CPUs != 8 {
		t.Errorf("after the restart it is shown as %+v", shown)
	}
	if used := after.Members.List()[0]; used.Capacity != (writ.Capacity{}) || used.Liveness != writ.LivenessSilent {
		t.Errorf("placement sees %+v", used)
	}
	if again := after.Machines.Unstored(0); len(again) != 0 {
		t.Errorf("the restart stores it again: %+v", again)
	}
	now := start.Add(2 * time.Hour)
	after.Presence.Beat(writ.Beat{Node: "n", Incarnation: 2, Sequence: 1, Health: writ.Health{Slots: 1}}, 1, now, now)
	if shown := Shown(after.Members)[0]; shown.Slots != 1 || shown.Version != "" {
		t.Errorf("after its next beat it is shown as %+v", shown)
	}
}

// A supervisor that is killed has no time to store the last beats. The stored times of ready nodes must be recent.
func TestStoredBeatIsRecent(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f, stored := New(oneNode(), nil, start), writ.Node{}
	writes := 0
	for second := range 3601 { // a beat each second, for one hour
		now := start.Add(time.Duration(second) * time.Second)
		beatAt(f, int64(second+1), now)
		if lives := f.Machines.Unstored(BeatEvery); len(lives) > 0 {
			f.Machines.Stored(lives)
			stored = Shown(New(oneNode(), lives, now).Members)[0]
			writes++
		}
		if age := now.Sub(stored.LastBeat); age < 0 || age >= BeatEvery {
			t.Fatalf("second %d: the stored time is %s old", second, age)
		}
	}
	if writes != 61 {
		t.Errorf("%d writes in one hour, want 61", writes)
	}
	beatAt(f, 5000, start.Add(time.Hour+time.Second))
	if lives := f.Machines.Unstored(0); len(lives) != 1 {
		t.Errorf("a supervisor that stops stores %d nodes", len(lives))
	}
	beatAt(f, 5001, start) // the clock was set back
	if lives := f.Machines.Unstored(BeatEvery); len(lives) != 1 || lives[0].Last.Time != start.UnixMicro() {
		t.Errorf("after a change of the clock, it stores %+v", lives)
	}
}

// A node is silent or lost by the time for which this supervisor has listened, not by the stored time of its last beat.
func TestStoredBeatDecidesNoLiveness(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, at := range map[string]int64{
		"long ago": now.Add(-1000 * time.Hour).UnixMicro(), "just now": now.UnixMicro(),
		"in the future": now.Add(1000 * time.Hour).UnixMicro(), "invalid": -1, "unset": 0,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := New(oneNode(), []journal.Life{{Node: "n", Last: &journal.LastBeat{Time: at}}}, now)
			f.Presence.SetSilence(identity.Silence{Silent: 10 * time.Second, Lost: 30 * time.Second})
			for second := 1; second <= 30; second++ {
				lost := f.Presence.tick(now.Add(time.Duration(second)*time.Second), time.Second)
				n, _ := f.Members.Get("n")
				if want := second == 30; (len(lost) == 1) != want || (n.Liveness == writ.LivenessLost) != want ||
					n.Liveness == writ.LivenessReady {
					t.Fatalf("after %d s it is %s, newly lost: %q", second, n.Liveness, lost)
				}
				if n.LastBeat.After(now) {
					t.Errorf("its last beat is in the future: %s", n.LastBeat)
				}
			}
		})
	}
}

func TestFirstProgressTextsPassAtOnce(t *testing.T) {
	t.Parallel()
	key := writ.JobKey{Run: "r", Seq: 1, Attempt: 1}
	var p progress
	now, passed := time.Now(), 0
	for i := range 40 { // a text a second
		passed += len(p.news([]writ.Progress{{JobKey: key, Text: time.Duration(i).String()}}, now.Add(time.Duration(i)*time.Second)))
	}
	if want := progressAtOnce + 3; passed != want { // then one every ten seconds: at 13, 23 and 33
		t.Errorf("%d texts of 40 seconds are passed on, want %d", passed, want)
	}
}
