package sal

import (
	"context"

	"writ"
)

// Logging is a driver whose resources write logs.
type Logging interface {
	Driver
	// Written reports whether a Look at the resource's log would return text after a position; "" is the beginning. It
	// is cheap and read-only, and may be called at any time, even during an operation on the resource.
	Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error)
}
