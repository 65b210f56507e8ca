package supervisor

import (
	"context"
	"time"

	"writ/internal/sleep"
)

// DefaultKeepRuns is how long a run is kept after its end, with its calls, results and lines.
const DefaultKeepRuns = 90 * 24 * time.Hour

const (
	// forgetFirst is how long a supervisor that begins leaves what is old alone: there is enough to do.
	forgetFirst = time.Minute
	forgetEvery = time.Hour
	// forgetRest is how many times as long as a step of forgetting took nothing is forgotten after it: the writer is there for the others.
	forgetRest = 4
)

// forget forgets what is old, until ctx ends.
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

// forgetOld takes one small step after the other until nothing is left that is old. What time it is, it takes from the newest run: a clock
// that was set far ahead by mistake must not make everything old, or what was done could be handed in again once the clock is right.
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
