// Package sleep waits. It must not know for what.
package sleep

import (
	"context"
	"time"
)

// For waits for d. If ctx ends before that it returns the error of ctx at once.
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
