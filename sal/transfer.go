package sal

import (
	"context"
	"io"
	"time"

	"writ"
)

// The content of a resource can move to another node: a Shipper there provides it as an archive, and the driver here
// fetches the archive from an Origin. The two drivers are independent of each other and of the transport.

// Shipper is a driver that can provide the content of its resources to other nodes.
type Shipper interface {
	Driver
	// Ship freezes the content of a resource until the shipment ends, and returns its archive, which has the same bytes
	// each time it is written. If the shipment exists already, Ship returns the content that was frozen for it. Ship
	// returns RESOURCE_UNKNOWN if the resource or snapshot does not exist, RESOURCE_CONFLICT if another resource has the
	// name, and RESOURCE_BUSY if too much content is frozen for other shipments. No operation on the resource runs during
	// Ship; one may run later, while the archive is written.
	Ship(ctx context.Context, s Shipment) (Archive, error)
	// Shipped releases the frozen content of a shipment, if it exists. Without this call, the content is released when
	// the resource is deleted or the shipment ends.
	Shipped(ctx context.Context, s Shipment) error
}

// Shipment identifies the content to provide.
type Shipment struct {
	Transfer string // name of the transfer; repeated requests for the same content use the same name
	Resource writ.ResourceID
	UID      writ.UID
	Snapshot string    // snapshot of the resource; the current content if empty
	Due      time.Time // end of the permission to fetch it, unless renewed; later, others may replace it
	Until    time.Time // end of the shipment, unless a later request extends it
}

// Archive is the content of a resource as bytes.
type Archive struct {
	Edition string // identifies the bytes: archives of one transfer with the same edition are equal
	Bytes   int64
	SizeGiB int64 // size of the resource: no copy may be smaller
	// Write writes the whole archive. It fails if the resource is deleted meanwhile.
	Write func(ctx context.Context, to io.Writer) error
	Close func() error // releases the archive
}

// Origin is the source of the archive from which an operation creates a resource.
type Origin interface {
	// Fetch downloads an archive into a part and resumes where the part ends. It returns nil when the part is complete
	// and has the digest that the other node sent. It returns UNREACHABLE if the other node does not answer, and
	// CHECKSUM_MISMATCH if the digest differs. Other errors are the error of ctx, errors of the other node, such as
	// RESOURCE_UNKNOWN and RESOURCE_CONFLICT, and errors of the part.
	Fetch(ctx context.Context, snapshot string, to Part) error
	// Done notifies the other node that the archive is no longer needed. It ignores errors.
	Done(ctx context.Context, snapshot string)
}

// Part is the beginning of an archive that arrives in pieces.
type Part interface {
	// At returns the edition of the part and the number of bytes it holds.
	At() (edition string, offset int64)
	// Begin discards the content of the part and starts with archive a. It returns an error if a does not fit.
	Begin(a Archive) error
	// Write appends the next bytes of the archive.
	io.Writer
	// Sum returns the SHA-256 of the content so far, in hex.
	Sum() string
}
