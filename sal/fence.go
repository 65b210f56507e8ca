package sal

import (
	"context"
	"time"

	"writ"
)

// FenceGrace limits how long a fenced process may take to exit by itself. It is short because its replacement may run
// on another node meanwhile.
const FenceGrace = 5 * time.Second

// Fencing is a driver whose resources run. A node that its datacenter gave up permanently fences all its resources,
// because the datacenter may have created them again on another node.
type Fencing interface {
	Driver
	// Fence stops the processes of a resource, even in the middle of an operation, and prevents Keep from starting them
	// again. The data of the resource stays; data of an unfinished creation may be removed. It is not an error if the
	// resource does not exist. Fence can be repeated after a crash.
	Fence(ctx context.Context, resource writ.ResourceID) error
}
