package takeover

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
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
	since   atomic.Pointer[time.Time] // begin of the last renewal; nil if only one process can use the journal
}

// heldFor is how long a supervisor considers its lease held after the begin of a renewal, unless a renewal fails. A read
// of messages that begins within this time ends before another supervisor can have the lease.
const heldFor = journal.LeaseTime - 1500*time.Millisecond

// Renewed returns the time of the last renewal. It is zero if only one process can use the journal.
func (l *Lease) Renewed() time.Time { return l.renewed.Last() }

// Held reports whether no other supervisor can have the lease. Without it, a supervisor must not take messages out of
// the queue: it could not store their results, and the other supervisor would not receive them.
func (l *Lease) Held() bool {
	since := l.since.Load()
	return since == nil || time.Since(*since) < heldFor
}

// Run renews the lease until ctx ends. It returns journal.ErrFenced if another supervisor has taken over. While the
// journal is unreachable, no step can commit, and therefore no job is sent.
func (l *Lease) Run(ctx context.Context) error {
	if !l.Journal.Shared() {
		return nil
	}
	tick := time.NewTicker(journal.RenewEvery)
	defer tick.Stop()
	taken := time.Now() // the supervisor has taken the lease before Run
	l.since.Store(&taken)
	for {
		began := time.Now()
		switch err := l.Journal.Renew(ctx); {
		case errors.Is(err, journal.ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			l.since.Store(new(time.Time)) // without a connection, a lease may end before its time
			l.Log.Warn("renew the lease", "epoch", l.Epoch, "err", err)
		case err == nil:
			l.since.Store(&began)
			l.renewed.Note(l.Now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
