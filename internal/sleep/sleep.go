// Package sleep waits for a time or the end of a context. It must not know the reason.
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
