package coord

import (
	"context"
	"errors"
	"time"
)

// Retention times of rows in the ledger.
const (
	keepEvents        = 7 * 24 * time.Hour
	keepRuns          = 90 * 24 * time.Hour
	keepRegistrations = 24 * time.Hour
)

// prune deletes old events, runs and registrations from the ledger.
func (c *Coordinator) prune(ctx context.Context) {
	now := c.Now()
	latest, err := c.Ledger.LatestEnd(ctx)
	if err == nil {
		err = errors.Join(
			c.Ledger.Prune(ctx, now.Add(-keepEvents), runsBefore(now, latest)),
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
func runsBefore(now, latestEnd time.Time) time.Time {
	if latestEnd.Before(now) {
		now = latestEnd
	}
	return now.Add(-keepRuns)
}
