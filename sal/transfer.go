package sal

import (
	"context"
	"io"
	"time"

	"writ"
)

// What a resource holds can be carried to another node: a Shipper there gives it away as an archive, and the driver here fetches that from
// an Origin. Neither knows the other, nor how the bytes travel.

// Shipper is a driver that can give what its resources hold to other nodes.
type Shipper interface {
	Driver
	// Ship keeps what a resource holds until the shipment's end, so that its archive is the same to the byte whenever it is written, and
	// returns that. What is kept for the shipment already stays as it is. RESOURCE_UNKNOWN if there is no such resource or snapshot,
	// RESOURCE_CONFLICT if another one has the name, RESOURCE_BUSY if too much is kept for others. No operation on the resource is under way meanwhile; one may be later, while the
	// archive is written.
	Ship(ctx context.Context, s Shipment) (Archive, error)
	// Shipped lets go of what is kept for a shipment, if anything is. What nobody lets go of goes with the resource, or when it is over.
	Shipped(ctx context.Context, s Shipment) error
}

// Shipment is what is to be given away.
type Shipment struct {
	Transfer string // its name: whoever asks for more of the same says the same
	Resource writ.ResourceID
	UID      writ.UID
	Snapshot string    // of the resource; what it holds now if empty
	Due      time.Time // nobody may ask for it after that, unless they are told to anew; what is kept for it makes room for others
	Until    time.Time // it is over then, unless it is asked for again with a later end
}

// Archive is what a resource holds, as bytes.
type Archive struct {
	Edition string // names these bytes: two archives of one transfer with the same edition are the same
	Bytes   int64
	SizeGiB int64 // of the resource: no copy may be smaller
	// Write writes all of it. It fails when the resource is deleted meanwhile.
	Write func(ctx context.Context, to io.Writer) error
	Close func() error // when it is needed no more
}

// Origin is where the archive comes from that an operation is to make a resource of.
type Origin interface {
	// Fetch brings an archive as a whole: what a part has already is not brought again. It returns when the part is complete and has the
	// digest that the other end tells. Otherwise the error is that of ctx, RESOURCE_UNKNOWN, RESOURCE_CONFLICT or whatever else the other
	// end says, UNREACHABLE if that does not answer, CHECKSUM_MISMATCH, or one of the part.
	Fetch(ctx context.Context, snapshot string, to Part) error
	// Done tells the other end that it is needed no more; that this may fail is of no account.
	Done(ctx context.Context, snapshot string)
}

// Part is the beginning of an archive that arrives in pieces.
type Part interface {
	// At says of which edition it is, and how many bytes are there.
	At() (edition string, offset int64)
	// Begin throws away what is there. Its error is about what begins: that it will not fit.
	Begin(a Archive) error
	// Write adds the bytes that follow.
	io.Writer
	// Sum is the SHA-256 of what is there, in hex.
	Sum() string
}
