package sal

import (
	"context"
	"time"

	"writ"
)

// Metered is a driver that reports the usage of its resources.
type Metered interface {
	Driver
	// Usage returns the usage of a resource, zero if it does not exist.
	Usage(ctx context.Context, resource writ.ResourceID) (Usage, error)
}

// Usage holds the capacity that a resource occupies now, and its traffic since it was created or its counters were
// reset.
type Usage struct {
	CPUs      writ.Hundredths // virtual CPUs, 0 while stopped
	MemoryMiB int64           // 0 while stopped
	DiskGiB   int64           // reserved, whether written or not
	Received  int64           // bytes received by its network interfaces; a decrease means that the counter was reset
	Sent      int64           // bytes sent, same rules
}

// Gauged is a driver that reports the load of its running resources.
type Gauged interface {
	Driver
	// Load returns the present load of a resource, zero if it is missing or has no processes. It is cheap and read-only,
	// and may be called at any time, even during an operation on the resource. The caller derives the use of processors
	// from two loads.
	Load(ctx context.Context, resource writ.ResourceID) (Load, error)
}

// Load is the load of the processes of a resource.
type Load struct {
	UID      writ.UID
	Running  bool
	CPU      time.Duration // processor time since the start of the processes; a restart resets it
	Memory   int64         // bytes in use, without caches of files that the kernel can drop
	Restarts int64         // how often the driver restarted an ended process of this resource
}

// Networked is a driver that reports the state of the host's networks.
type Networked interface {
	Driver
	// Network returns the state that it can determine quickly. The Detail field of the overlay names the parts that it
	// could not determine.
	Network(ctx context.Context) (writ.NodeNetwork, error)
}

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

// FenceGrace limits how long a fenced process may take to exit by itself. It is short because its replacement may run
// on another node meanwhile.
const FenceGrace = 5 * time.Second

// Fencing is a driver whose resources have processes. A node that its datacenter has given up permanently fences all
// its resources, because the datacenter may have created them again on another node.
type Fencing interface {
	Driver
	// Fence stops the processes of a resource, even in the middle of an operation, and prevents Keep from starting them
	// again. The data of the resource stays; data of an unfinished creation may be removed. It is not an error if the
	// resource does not exist. Fence can be repeated after a crash.
	Fence(ctx context.Context, resource writ.ResourceID) error
}

// Logging is a driver whose resources write logs.
type Logging interface {
	Driver
	// Written reports whether the log of a resource has text after a position that a Look operation returned; "" is the
	// beginning. It is cheap and read-only, and may be called at any time, even during an operation on the resource.
	Written(ctx context.Context, resource writ.ResourceID, after string) (bool, error)
}

// Remnants is a driver that keeps data of deleted resources, like the archives of deleted volumes.
type Remnants interface {
	Driver
	// RemnantBytes returns the disk space of data that belongs to no resource.
	RemnantBytes(ctx context.Context) (int64, error)
}
