// Package fleet holds the present state of the nodes of a datacenter in memory. The state consists of identities and
// decisions, beats, machines, and the calls that wait for room. Facts that must survive a restart are in the journal.
// The package applies messages of nodes whose signature and sender were verified before; it neither receives messages
// nor sends any.
//
// Each part has its own state and lock. Locks are taken in the order Presence, Findings or Machines, then Members.
package fleet

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// Fleet holds the parts of the state of all nodes.
type Fleet struct {
	Members  *Members
	Presence *Presence
	Machines *Machines
	Findings *Findings
	Backlog  *Backlog
}

// New returns a fleet of nodes that have not sent a beat yet. lives holds the stored facts about their machines.
func New(nodes []*journal.Node, lives []journal.Life, now time.Time) *Fleet {
	members := newMembers(nodes)
	presence := &Presence{members: members, nodes: make(map[writ.NodeID]*presence)}
	f := &Fleet{
		Members: members, Presence: presence,
		Machines: &Machines{members: members, presence: presence, nodes: make(map[writ.NodeID]*machine)},
		Findings: &Findings{members: members, presence: presence, applied: make(map[writ.NodeID]writ.ReportID)},
		Backlog:  newBacklog(nodes),
	}
	for _, l := range lives {
		known := members.update(l.Node, func(n *journal.Node) { n.HostFacts = bound.HostFacts(l.HostFacts, now) })
		if known {
			if l.Last != nil {
				restore(members, l.Node, *l.Last, now)
			}
			f.Machines.of(l.Node).stored = l
		}
	}
	return f
}

// Load returns the fleet of the nodes in a journal.
func Load(ctx context.Context, j *journal.Journal, now time.Time) (*Fleet, error) {
	var nodes []*journal.Node
	var lives []journal.Life
	err := j.Read(ctx, func(tx *journal.Tx) (err error) {
		if nodes, err = tx.Nodes(); err != nil {
			return err
		}
		lives, err = tx.Lives()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load nodes: %w", err)
	}
	return New(nodes, lives, now), nil
}

// Tick updates the liveness of all nodes and returns the nodes that have become lost. listened is how long the
// supervisor could receive beats since the last Tick. It adds to the silence of nodes, and to their online time in the
// month of wall. `now` is the monotonic time.
func (f *Fleet) Tick(now, wall time.Time, listened time.Duration) (lost []writ.NodeID) {
	lost = f.Presence.tick(now, listened)
	f.Machines.pass(wall.UTC().Format(bound.OnlineMonth), listened)
	return lost
}
