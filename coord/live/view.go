// Package live asks datacenters for their current state, which a coordinator does not store: nodes, queues,
// holds, booting machines, secrets, and the values and logs of runs. A datacenter that does not answer delays a
// request up to a limit only, and the answers of all other datacenters are complete.
package live

import (
	"context"
	"time"

	"writ"
	"writ/coord/rosters"
	"writ/ledger"
	"writ/supervisor/link"
)

// View asks the connected datacenters. Set its fields before use.
type View struct {
	Links   *link.Listener
	Ledger  Ledger
	Rosters *rosters.Store
	// Still returns an error if the caller has lost its rights since the request began. It is called before each answer
	// is returned.
	Still func(ctx context.Context) error
}

// Ledger is the part of ledger.Ledger that a View reads.
type Ledger interface {
	Datacenters(ctx context.Context) ([]ledger.Datacenter, error)
	Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error)
	Run(ctx context.Context, id writ.RunID) (ledger.Run, error)
	LastEvents(ctx context.Context) (map[writ.DatacenterID]time.Time, error)
}
