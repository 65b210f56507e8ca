package supervisor

import (
	"context"
	"time"

	"writ/internal/sleep"
)

// DefaultKeepRuns is how long an ended run is kept, with its calls, results and log lines.
const DefaultKeepRuns = 90 * 24 * time.Hour

const (
	// forgetFirst delays the first deletion after the start, when the supervisor is busy.
	forgetFirst = time.Minute
	forgetEvery = time.Hour
	// forgetRest is the pause after each deletion, as a multiple of its duration, so that other writers are not
	// delayed.
	forgetRest = 4
)

// forget deletes expired records every forgetEvery until ctx ends.
func (s *Supervisor) forget(ctx context.Context) error {
	next := time.NewTimer(forgetFirst)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := s.forgetOld(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("delete expired records; trying again", "err", err, "retry_in", forgetEvery)
		}
		next.Reset(forgetEvery)
	}
}

// forgetOld deletes expired records in small transactions until none is left. It measures age from the newest accepted
// run if that is earlier than the clock. Otherwise a clock that was set far ahead by mistake would expire everything,
// and texts that were carried out could be submitted again after the clock is corrected.
func (s *Supervisor) forgetOld(ctx context.Context) error {
	now := s.Now()
	newest, err := s.Journal.Accepted(ctx)
	if err != nil {
		return err
	}
	if !newest.IsZero() && newest.Before(now) {
		now = newest
	}
	for more := true; more && ctx.Err() == nil; {
		begun := time.Now()
		if more, err = s.Journal.Forget(ctx, now, now.Add(-s.KeepRuns), s.coordinators()); err != nil {
			return err
		}
		if more {
			_ = sleep.For(ctx, forgetRest*time.Since(begun))
		}
	}
	return nil
}
