package watch

import (
	"context"
	"fmt"
	"sync/atomic"

	"writ"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// holdNotices informs all open runs after a hold was set or released, because their wait reasons may have changed.
type holdNotices struct {
	journal  *journal.Journal
	inForce  *hold.Decisions
	post     func(run writ.RunID, m mail.Mail)
	changes  int            // number of hold changes when the last round began
	after    journal.Looked // cursor of that round
	sending  bool           // a round is in progress
	received atomic.Int64   // number of hold changes that all open runs have received
}

// send gives the next maxDue open runs a step, until all have received the last change.
func (h *holdNotices) send(ctx context.Context) error {
	if n := h.inForce.Changes(); n != h.changes {
		h.changes, h.after, h.sending = n, journal.Looked{}, true
	}
	if !h.sending {
		return nil
	}
	var runs []writ.RunID
	next := h.after
	err := h.journal.Read(ctx, func(tx *journal.Tx) (err error) {
		runs, next, err = tx.OpenRunsAfter(h.after, maxDue)
		return err
	})
	if err != nil {
		return fmt.Errorf("find runs that were on hold: %w", err)
	}
	for _, id := range runs {
		h.post(id, mail.Mail{})
	}
	if h.after, h.sending = next, next != (journal.Looked{}); !h.sending {
		h.received.Store(int64(h.changes))
	}
	return nil
}
