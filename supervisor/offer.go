package supervisor

import (
	"context"
	"sync"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/placement"
)

// freedNodes collects the nodes where ended calls made room for waiting calls. Many steps end with one commit, so the
// waiting runs are looked up once for all of them.
type freedNodes struct {
	wake chan struct{}

	mu    sync.Mutex
	nodes map[writ.NodeID]writ.RunID // run whose step made the room, "" for several
}

func newFreedNodes() *freedNodes {
	return &freedNodes{wake: make(chan struct{}, 1), nodes: make(map[writ.NodeID]writ.RunID)}
}

// add records that a step of a run has made room on a node.
func (r *freedNodes) add(node writ.NodeID, run writ.RunID) {
	r.mu.Lock()
	if _, known := r.nodes[node]; known {
		run = ""
	}
	r.nodes[node] = run
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take removes and returns the recorded nodes.
func (r *freedNodes) take() map[writ.NodeID]writ.RunID {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.nodes
	r.nodes = make(map[writ.NodeID]writ.RunID)
	return nodes
}

// offerRooms offers the free room of nodes until ctx ends.
func (s *Supervisor) offerRooms(ctx context.Context) error {
	for {
		select {
		case <-s.freed.wake:
		case <-ctx.Done():
			return nil
		}
		for node, run := range s.freed.take() {
			s.offer(ctx, node, run)
		}
	}
}

// offer wakes runs whose calls wait for room on a node. It shares the free room between their projects. It skips the
// run but, which already sent all its sendable calls in its last step.
func (s *Supervisor) offer(ctx context.Context, node writ.NodeID, but writ.RunID) {
	member, why := s.fleet.Members.Away(node)
	if !why.IsZero() {
		return
	}
	s.wakeSendable(ctx, node, but,
		func(l journal.Load) (room, slots int) { return placement.Room(member.Slots, l.Sent()), member.Slots })
}

// wakeSendable wakes the runs whose calls wait only for a node, except the run but. most returns the free room in calls
// and the slots of the node. If the room is 0 and slots is not, wakeSendable offers the spare room.
func (s *Supervisor) wakeSendable(
	ctx context.Context, node writ.NodeID, but writ.RunID, most func(journal.Load) (room, slots int),
) {
	var next []writ.RunID
	err := s.Journal.Read(ctx, func(tx *journal.Tx) error {
		load, err := tx.Load(node)
		if err != nil {
			return err
		}
		room, slots := most(load)
		s.fleet.Backlog.SetBacklog(node, load.Planned > 0)
		if load.Planned == 0 || room <= 0 && slots <= 0 {
			return nil
		}
		if room <= 0 {
			next, err = s.shares.spare(tx, node, load, slots)
			return err
		}
		lines, err := s.shares.Lines(tx, node, tx.Now, room, "")
		next = placement.Share(room, lines)
		return err
	})
	if err != nil {
		return // the watch offers again
	}
	told := map[writ.RunID]bool{but: true}
	for _, run := range next {
		if !told[run] {
			told[run] = true
			s.steps.Post(run, mail.Mail{})
		}
	}
}
