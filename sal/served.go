package sal

import (
	"context"

	"writ"
)

// Served is a driver whose resources are served by processes of this host. The runner waits for these processes and
// calls Keep as soon as one exits, instead of at its next scan.
type Served interface {
	Keeper
	// Process returns the process that serves a resource now, or nil. The caller closes it.
	Process(ctx context.Context, resource writ.ResourceID) (Process, error)
}

// Process is a running process of a driver.
type Process interface {
	// Wait returns nil when the process has exited, or the error of ctx.
	Wait(ctx context.Context) error
	// Close releases the handle. The process continues to run.
	Close()
}
