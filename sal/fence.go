package sal

import (
	"context"
	"time"

	"writ"
)

// FenceGrace is how long what is fenced may take to end by itself. It is short: the same may run elsewhere meanwhile.
const FenceGrace = 5 * time.Second

// Fencing is a driver of what runs. A node that its datacenter has given up for good fences all that it has: the datacenter may have made the
// same anew on another node.
type Fencing interface {
	Driver
	// Fence ends what runs of a resource, whatever it was in the middle of, and keeps Keep from starting it again. What the resource holds stays;
	// what was never finished holds nothing and may be taken away. What is not there is no error. After a crash it can be called again.
	Fence(ctx context.Context, resource writ.ResourceID) error
}
