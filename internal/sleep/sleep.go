// Package sleep has waits and periodic work that end with a context. It does not depend on the purpose of a wait.
package sleep

import (
	"context"
	"time"
)

// For waits for d. If ctx ends earlier, it returns the error of ctx at once.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Every calls do at once and then at each interval, until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func(ctx context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
