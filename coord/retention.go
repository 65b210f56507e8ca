package coord

import (
	"context"
	"errors"
	"time"
)

// Retention is how long the ledger keeps rows.
type Retention struct {
	// Events is the time from the arrival of an event to its deletion; DefaultKeepEvents if 0. A stream or a webhook that
	// is further behind misses events.
	Events time.Duration
	// Runs is the time from the end of a run to its deletion with its calls; DefaultKeepRuns if 0. The newest revisions of
	// a deployment stay longer.
	Runs time.Duration
}

// Retention times, if none are set.
const (
	DefaultKeepEvents = 7 * 24 * time.Hour
	DefaultKeepRuns   = 90 * 24 * time.Hour
	keepRegistrations = 24 * time.Hour
)

// prune deletes old events, runs and registrations from the ledger.
func (c *Coordinator) prune(ctx context.Context) {
	now := c.Now()
	latest, err := c.Ledger.LatestEnd(ctx)
	if err == nil {
		err = errors.Join(
			c.Ledger.Prune(ctx, now.Add(-c.Retention.Events), c.Retention.runsBefore(now, latest)),
			c.Ledger.RemoveRegistrations(ctx, now.Add(-keepRegistrations)),
		)
	}
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "prune the ledger; trying again later", "err", err, "retry_in", pruneEvery)
	}
}

// runsBefore returns the time before which ended runs are deleted. If `now` is after the latest end of a run, which a
// datacenter reported, that end replaces `now`. Otherwise a clock of this coordinator that is far ahead would delete
// all runs.
func (r Retention) runsBefore(now, latestEnd time.Time) time.Time {
	if latestEnd.Before(now) {
		now = latestEnd
	}
	return now.Add(-r.Runs)
}
