package watch

import (
	"context"
	"fmt"
	"slices"

	"writ"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/outbox"
	"writ/supervisor/ratelog"
)

// maxSleepers limits the open calls that one scan checks for a wake-up.
const maxSleepers = 200

// NoWakeUp is logged for a run that only this scan has woken.
const NoWakeUp = "a run had no wake-up; please report this defect"

// sleepers wakes runs without a wake-up: open runs that no event, time or message will wake. They are the result of a
// bug in the supervisor.
type sleepers struct {
	epoch    int64
	journal  *journal.Journal
	members  *fleet.Members
	mailbox  *mailbox.Scheduler
	outbox   *outbox.Outbox
	warnings *ratelog.Log
	looked   journal.Looked // cursor of the scan
	asleep   []writ.RunID   // runs without a wake-up in the last scan
}

// wake checks some of the open runs, in rotation. A run without a wake-up would wait until its deadline, so it gets a
// step that decides again about all its calls. A run must be found in two scans, because a recent decision about a node
// may not have reached it yet. A supervisor that another one has replaced wakes no run: it does not know the nodes that
// have joined since, and learns only at its next write that it was replaced.
func (s *sleepers) wake(ctx context.Context) error {
	var confirmed, found []journal.Sleeper
	// an answer that arrives after the reads of the journal may belong to a question that was open before them
	asleep := slices.DeleteFunc(s.asleep, s.isAwaited)
	err := s.journal.Read(ctx, func(tx *journal.Tx) error {
		latest, err := journal.LastEpoch(tx)
		if err != nil || latest != s.epoch {
			return err
		}
		if confirmed, err = tx.StillAsleep(s.members.IsMember, asleep); err == nil {
			found, s.looked, err = tx.Sleepers(s.members.IsMember, s.looked, maxSleepers)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("find runs without a wake-up: %w", err)
	}
	for _, sleeper := range confirmed {
		if s.isAwaited(sleeper.Run) {
			continue
		}
		s.warnings.Warn("", NoWakeUp, "run", sleeper.Run, "seq", sleeper.Seq, "why", sleeper.Why)
		s.mailbox.Post(sleeper.Run, mail.Mail{})
	}
	s.asleep = nil
	for _, sleeper := range found {
		s.asleep = append(s.asleep, sleeper.Run)
	}
	s.asleep = slices.Compact(s.asleep)
	return nil
}

// isAwaited reports whether pending mail or an answer of the queue will wake a run.
func (s *sleepers) isAwaited(run writ.RunID) bool {
	return s.mailbox.Knows(run) || s.outbox.IsUnanswered(run)
}
