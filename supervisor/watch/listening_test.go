package watch

import (
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
)

func TestLateScanIsNoSilence(t *testing.T) {
	now := time.Now()
	f := fleet.New([]*journal.Node{{Node: writ.Node{ID: "n"}}}, nil, now)
	f.Presence.SetSilence(identity.Silence{Silent: time.Hour, Lost: identity.DefaultSilence.Lost})
	l := &listening{heard: now}
	var done int64
	f.Presence.Beat(writ.Beat{Node: "n", Sequence: 1}, 1, now, now)
	scan := func(after time.Duration, rounds int64, queueWorks bool) {
		t.Helper()
		now = now.Add(after)
		done += rounds
		if lost := f.Tick(now, now, l.count(now, done, queueWorks)); len(lost) > 0 {
			t.Fatal("the node is lost")
		}
	}
	scan(10*time.Minute, 1, true) // the process was suspended
	scan(time.Second, 1, true)
	scan(10*time.Minute, 1, false) // the queue was away
	for range 100 {
		scan(time.Second, 0, true) // the collector is blocked
	}
	scan(time.Second, 1, true)
	const want = 5 * time.Second
	for _, limit := range []time.Duration{want + 1, want} {
		f.Presence.SetSilence(identity.Silence{Silent: limit, Lost: time.Hour})
		f.Tick(now, now, 0)
		if n, _ := f.Members.Get("n"); (n.Liveness == writ.LivenessSilent) != (limit == want) {
			t.Errorf("the node is %s if %s of silence are allowed, want %s counted", n.Liveness, limit, want)
		}
	}
	f.Presence.SetSilence(identity.DefaultSilence)
	f.Presence.Beat(writ.Beat{Node: "n", Sequence: 2}, 1, now, now)
	for range int(identity.DefaultSilence.Lost/time.Second) - 1 {
		scan(time.Second, 1, true)
	}
	now = now.Add(time.Second)
	done++
	if lost := f.Tick(now, now, l.count(now, done, true)); len(lost) != 1 {
		t.Error("a node that was silent for a minute is not lost")
	}
}
