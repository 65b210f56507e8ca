package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/supervisor/journal"
)

func TestARunThatCannotBeWrittenKeepsWhatItIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		var got mail
		turns := newTurns(func(_ context.Context, _ writ.RunID, m mail) error {
			if full {
				return errors.New("disk full")
			}
			got = m
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- turns.run(ctx) }()

		key := writ.JobKey{Run: "r", Seq: 1, Try: 1}
		kept := 0
		for range 100 { // as many looks of the watch, and as many times the node sends its result again
			if turns.postResult(arrival{result: writ.Result{JobKey: key}, node: "n"}) {
				kept++
			}
			turns.post("r", mail{overdue: []writ.JobKey{key}, again: []sending{{key, 1}}, lost: []writ.NodeID{"n"}})
			synctest.Wait()
			turns.retry()
			synctest.Wait()
		}
		full = false
		turns.retry()
		synctest.Wait()
		if kept != 1 || len(got.results) != 1 || len(got.overdue) != 1 || len(got.again) != 1 || len(got.lost) != 1 {
			t.Errorf("%d results were kept; the turn got %d results, %d overdue, %d again, %d lost; want one of each",
				kept, len(got.results), len(got.overdue), len(got.again), len(got.lost))
		}
		if !turns.postResult(arrival{result: writ.Result{JobKey: key}, node: "n"}) {
			t.Error("a result that was written is not taken again: nobody would acknowledge it")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestALateLookIsNoSilence(t *testing.T) {
	f := &fleet{nodes: make(map[writ.NodeID]*member)}
	f.put(journal.Node{Node: writ.Node{ID: "n"}})
	now := time.Now()
	s := &Supervisor{}
	w := &watcher{s: s, heard: now}
	f.beat(writ.Beat{Node: "n", Sequence: 1}, 1, now, now)
	look := func(after time.Duration, rounds int64, queueWorks bool) {
		t.Helper()
		now = now.Add(after)
		s.rounds.Add(rounds)
		if lost := f.tick(now, w.listened(now, queueWorks)); len(lost) > 0 {
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
	for range int(lostAfter/time.Second) - 1 {
		look(time.Second, 1, true)
	}
	now = now.Add(time.Second)
	s.rounds.Add(1)
	if lost := f.tick(now, w.listened(now, true)); len(lost) != 1 {
		t.Error("a node that was silent for a minute is not lost")
	}
}
