package supervisor

import (
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

func TestALateLookIsNoSilence(t *testing.T) {
	f := &fleet{keys: make(map[string]writ.NodeID), nodes: make(map[writ.NodeID]*member), silence: identity.DefaultSilence}
	f.put(journal.Node{Node: writ.Node{ID: "n"}})
	now := time.Now()
	s := &Supervisor{}
	w := &watcher{s: s, heard: now}
	f.beat(writ.Beat{Node: "n", Sequence: 1}, 1, now, now)
	look := func(after time.Duration, rounds int64, queueWorks bool) {
		t.Helper()
		now = now.Add(after)
		s.rounds.Add(rounds)
		if lost := f.tick(now, now, w.listened(now, queueWorks)); len(lost) > 0 {
			t.Fatal("the node is lost")
		}
	}
	look(10*time.Minute, 1, true) // everything stood still
	look(time.Second, 1, true)
	look(10*time.Minute, 1, false) // the queue was away
	for range 100 {
		look(time.Second, 0, true) // the collector is kept waiting
	}
	look(time.Second, 1, true)
	if got, want := f.nodes["n"].silent, 5*time.Second; got != want {
		t.Errorf("%s of silence are counted, want %s", got, want)
	}
	f.beat(writ.Beat{Node: "n", Sequence: 2}, 1, now, now)
	for range int(f.silence.Lost/time.Second) - 1 {
		look(time.Second, 1, true)
	}
	now = now.Add(time.Second)
	s.rounds.Add(1)
	if lost := f.tick(now, now, w.listened(now, true)); len(lost) != 1 {
		t.Error("a node that was silent for a minute is not lost")
	}
}
