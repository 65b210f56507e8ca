package runview

import (
	"context"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/sal/catalog"
)

// FullDisks finds the nodes of a run whose disks are almost full. It lists the nodes once, when the first call that may
// write to a disk begins.
type FullDisks struct {
	list func() []writ.Node
	// disks holds the almost full disk of each node. It is nil before the first call.
	disks map[writ.NodeID]*writ.Disk
}

// diskPatience limits the request for the list of nodes.
const diskPatience = 2 * time.Second

// NewFullDisks returns the warnings about disks for a run. It lists the nodes of the run's datacenter from a
// coordinator. If the request fails, there are no warnings.
func NewFullDisks(ctx context.Context, c *client.Client, id writ.RunID) *FullDisks {
	return &FullDisks{list: func() []writ.Node {
		ctx, stop := context.WithTimeout(ctx, diskPatience)
		defer stop()
		run, err := c.Runs.Get(ctx, id)
		if err != nil {
			return nil
		}
		nodes, err := c.Nodes.List(ctx, api.ListNodesParams{Datacenter: api.Given(string(run.Datacenter))})
		if err != nil {
			return nil
		}
		return nodes
	}}
}

// warning returns the almost full disk of a call's node, the first time that a call may write to it. Otherwise it
// returns nil.
func (f *FullDisks) warning(c writ.Call) *writ.Disk {
	op, known := catalog.Lookup(c.Operation)
	if f == nil || !known || !op.Makes && op.Effect != catalog.Alter {
		return nil
	}
	if f.disks == nil {
		f.disks = make(map[writ.NodeID]*writ.Disk)
		for _, n := range f.list() {
			f.disks[n.ID] = n.AlmostFullDisk()
		}
	}
	d := f.disks[c.Node]
	f.disks[c.Node] = nil
	return d
}
