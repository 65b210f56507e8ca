package takeover

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"writ/internal/metrics"
	"writ/supervisor/journal"
)

// Lease renews the lease of a journal that several supervisors share. All fields are required.
type Lease struct {
	Journal *journal.Journal
	Epoch   int64
	Now     func() time.Time
	Log     *slog.Logger

	renewed metrics.Moment
}

// Renewed returns the time of the last renewal. It is zero if only one process can use the journal.
func (l *Lease) Renewed() time.Time { return l.renewed.Last() }

// Run renews the lease until ctx ends. It returns journal.ErrFenced if another supervisor has taken over. While the
// journal is unreachable, no step can commit, and therefore no job is sent.
func (l *Lease) Run(ctx context.Context) error {
	if !l.Journal.Shared() {
		return nil
	}
	tick := time.NewTicker(journal.RenewEvery)
	defer tick.Stop()
	for {
		switch err := l.Journal.Renew(ctx); {
		case errors.Is(err, journal.ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			l.Log.Warn("renew the lease", "epoch", l.Epoch, "err", err)
		case err == nil:
			l.renewed.Note(l.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
