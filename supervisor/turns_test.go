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
	f.beat(writ.Beat{Node: "n", Sequence: 1}, now, now)
	if lost := f.tick(now.Add(time.Second), 2*time.Minute, true); len(lost) > 0 {
		t.Error("a node that has just sent a beat is lost because nobody looked for two minutes")
	}
	if lost := f.tick(now.Add(2*time.Minute), 2*time.Minute, true); len(lost) != 1 {
		t.Error("a node that was silent for two minutes is not lost")
	}
}
