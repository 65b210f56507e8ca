// Package expiry deletes the records of a datacenter that have outlived their retention time. The journal decides which
// records belong together and may be deleted.
package expiry

import (
	"context"
	"log/slog"
	"time"

	"writ/internal/sleep"
	"writ/supervisor/journal"
)

const (
	// deleteFirst delays the first deletion after the start, when the supervisor is busy.
	deleteFirst = time.Minute
	deleteEvery = time.Hour
	// deleteRest is the pause after each deletion, as a multiple of its duration, so that other writers are not
	// delayed.
	deleteRest = 4
)

// Records deletes expired records. All fields are required.
type Records struct {
	Journal  *journal.Journal
	KeepRuns time.Duration // retention time of ended runs
	// Coordinators returns the addresses of coordinators that need the events. Events that only other coordinators lack
	// are deleted.
	Coordinators func() []string
	Now          func() time.Time
	Log          *slog.Logger
}

// Run deletes expired records every deleteEvery until ctx ends.
func (r *Records) Run(ctx context.Context) error {
	for pause := deleteFirst; sleep.For(ctx, pause) == nil; pause = deleteEvery {
		if err := r.deleteOld(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("delete expired records; trying again", "err", err, "retry_in", deleteEvery)
		}
	}
	return nil
}

// deleteOld deletes expired records in small transactions until no expired record is left. It measures age from the
// acceptance of the newest run if that is earlier than the clock. Otherwise a clock that was set far ahead by mistake
// would expire all records. After a correction of the clock, texts that were carried out could then be submitted again.
func (r *Records) deleteOld(ctx context.Context) error {
	now := r.Now()
	newest, err := r.Journal.Accepted(ctx)
	if err != nil {
		return err
	}
	if !newest.IsZero() && newest.Before(now) {
		now = newest
	}
	for more := true; more && ctx.Err() == nil; {
		begun := time.Now()
		if more, err = r.Journal.Forget(ctx, now, now.Add(-r.KeepRuns), r.Coordinators()); err != nil {
			return err
		}
		if more {
			_ = sleep.For(ctx, deleteRest*time.Since(begun))
		}
	}
	return nil
}
