package supervisor

import (
	"context"
	"fmt"
	"slices"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// maxSleepersLook limits the open calls that one scan checks for a wake-up.
const maxSleepersLook = 500

// noWakeUp is logged for a run that only the watch woke.
const noWakeUp = "a run had no wake-up; please report this defect"

// wakeSleepers checks some of the open runs, in rotation, for runs without a wake-up. Such a run is a bug of this
// program. It gets a step, which decides again about all its calls, instead of waiting until its deadline. A run must
// be found in two scans, because a recent decision about a node may not have reached it yet.
func (w *watcher) wakeSleepers(ctx context.Context) error {
	var confirmed, found []journal.Sleeper
	err := w.s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if confirmed, err = tx.StillAsleep(w.s.fleet.Members.IsMember, w.asleep); err == nil {
			found, w.looked, err = tx.Sleepers(w.s.fleet.Members.IsMember, w.looked, maxSleepersLook)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("find runs without a wake-up: %w", err)
	}
	for _, sleeper := range confirmed {
		if w.s.isAwaited(sleeper.Run) {
			continue
		}
		w.s.warnings.Warn("", noWakeUp, "run", sleeper.Run, "seq", sleeper.Seq, "why", sleeper.Why)
		w.s.steps.Post(sleeper.Run, mail.Mail{})
	}
	w.asleep = nil
	for _, sleeper := range found {
		w.asleep = append(w.asleep, sleeper.Run)
	}
	w.asleep = slices.Compact(w.asleep)
	return nil
}

// isAwaited reports whether a run has pending mail or waits for an answer of the queue.
func (s *Supervisor) isAwaited(run writ.RunID) bool {
	return s.steps.Knows(run) || s.outbox.IsUnanswered(run)
}
