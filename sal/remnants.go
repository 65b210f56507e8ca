package sal

import "context"

// Remnants is a driver that keeps data of deleted resources, like the archives of deleted volumes.
type Remnants interface {
	Driver
	// RemnantBytes returns the disk space of data that belongs to no resource.
	RemnantBytes(ctx context.Context) (int64, error)
}
