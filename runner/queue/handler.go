package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Handle calls h and recovers from a panic, which it logs with its stack: one bad task must not end the process with
// all others.
func (h Handler) Handle(ctx context.Context, log *slog.Logger, task Task) {
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "handler panicked", "task", task.ID, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	h(ctx, task)
}
