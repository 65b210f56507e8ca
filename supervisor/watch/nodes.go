package watch

import (
	"context"
	"reflect"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/ratelog"
)

// nodeStates finds the nodes whose reported or decided state has changed between two scans.
type nodeStates struct {
	last map[writ.NodeID]writ.Node
}

// changed returns the nodes that differ from the last scan. Their load and the time of their beat are not compared.
func (s *nodeStates) changed(nodes []writ.Node) map[writ.NodeID]bool {
	changed := make(map[writ.NodeID]bool)
	before := s.last
	s.last = make(map[writ.NodeID]writ.Node)
	for _, n := range nodes {
		n.Used, n.LastBeat = writ.Capacity{}, time.Time{}
		s.last[n.ID] = n
		if !reflect.DeepEqual(n, before[n.ID]) {
			changed[n.ID] = true
		}
	}
	return changed
}

// nodeEvents writes the events of nodes and the facts about their machines.
type nodeEvents struct {
	journal  *journal.Journal
	fleet    *fleet.Fleet
	warnings *ratelog.Log
	changes  fleet.Changes // nodes whose last event is outdated
	restated int64         // last seen Journal.Restated
}

// write writes an event for each node whose public state has changed, and the new facts about machines.
func (e *nodeEvents) write(ctx context.Context, loads map[writ.NodeID]journal.Load) error {
	// the journal has repeated the events of all nodes with their state when they joined: write their present state
	if n := e.journal.Restated(); n != e.restated {
		e.restated = n
		e.changes.Forget()
	}
	e.fleet.Members.SetReserved(loads)
	changed := e.changes.Find(fleet.Shown(e.fleet.Members))
	lives := e.fleet.Machines.Unstored(fleet.BeatEvery)
	if len(changed)+len(lives) == 0 {
		return nil
	}
	events := make([]writ.Event, len(changed))
	for i := range changed {
		events[i].Node = &changed[i]
		if journal.Shorten(&events[i]) {
			e.warnings.Refused(changed[i].ID, "node report exceeds the size of an event; coordinators receive a shortened report",
				writ.Errorf(writ.CodeTooLarge, "its drivers, disks, networks, orphans and stuck jobs do not fit into one event"))
		}
	}
	err := e.journal.Write(failpoint.At(ctx, failpoint.NodesAnnounced), func(tx *journal.Tx) error {
		tx.AddEvents(events...)
		return fleet.PutLives(tx, lives)
	})
	if err == nil {
		e.changes.Written(changed)
		e.fleet.Machines.Stored(lives)
	}
	return err
}
