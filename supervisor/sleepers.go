package supervisor

import (
	"context"
	"fmt"
	"slices"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// maxSleepersLook bounds the open calls whose wakers the watch looks at in one look.
const maxSleepersLook = 500

// noWakeUp is logged for a run that only the watch woke.
const noWakeUp = "a run had no wake-up; please report this defect"

// wakeSleepers looks at some of the open runs, in turn, for one that nothing would wake. There is none unless this program has a bug, and that
// must not keep a run waiting until its deadline: it gets a step, which decides anew what each of its calls waits for. What was decided about a
// node a moment ago may not have reached its runs, so it is looked at twice.
func (w *watcher) wakeSleepers(ctx context.Context) error {
	var confirmed, found []journal.Sleeper
	err := w.s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if confirmed, err = tx.StillAsleep(w.s.fleet.isMember, w.asleep); err == nil {
			found, w.looked, err = tx.Sleepers(w.s.fleet.isMember, w.looked, maxSleepersLook)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for runs that nothing would wake: %w", err)
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

// isAwaited reports whether a run has mail, which it may not have been able to write yet, or waits for the answer of the queue.
func (s *Supervisor) isAwaited(run writ.RunID) bool {
	return s.steps.Knows(run) || s.outbox.IsUnanswered(run)
}
