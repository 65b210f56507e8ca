// Package room divides the room of nodes fairly between projects with waiting calls. The room of a node is the number
// of further calls that it can receive. The package decides which runs get a step; the step itself claims the room.
package room

import (
	"context"

	"writ"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/placement"
)

// Offers wakes the runs whose calls wait for room on a node. Create it with NewOffers.
type Offers struct {
	journal *journal.Journal
	members *fleet.Members
	shares  *Shares
	freed   *freed
}

// NewOffers returns the offers of the nodes of a datacenter.
func NewOffers(j *journal.Journal, members *fleet.Members, shares *Shares) *Offers {
	return &Offers{journal: j, members: members, shares: shares, freed: newFreed()}
}

// Freed records that a step of a run has made room on a node. Run then offers the room to waiting calls.
func (o *Offers) Freed(node writ.NodeID, run writ.RunID) { o.freed.add(node, run) }

// Run offers the recorded room of nodes until ctx ends.
func (o *Offers) Run(ctx context.Context) error {
	for {
		select {
		case <-o.freed.wake:
		case <-ctx.Done():
			return nil
		}
		for node, run := range o.freed.take() {
			o.Offer(ctx, node, run)
		}
	}
}

// Offer wakes runs whose calls wait for room on a node. It shares the free room between their projects. It skips the
// run `but`, whose last step already sent all calls that it could send.
func (o *Offers) Offer(ctx context.Context, node writ.NodeID, but writ.RunID) {
	member, why := o.members.Away(node)
	if !why.IsZero() {
		return
	}
	o.wake(ctx, node, but,
		func(l journal.Load) (room, slots int) { return placement.Room(member.Slots, l.Sent()), member.Slots })
}

// Recheck wakes at most limit runs whose calls wait only for a node that can receive no jobs, so that they update their
// wait reason.
func (o *Offers) Recheck(ctx context.Context, node writ.NodeID, limit int) {
	o.wake(ctx, node, "", func(journal.Load) (room, slots int) { return limit, 0 })
}

// wake wakes the runs whose calls wait only for a node, except the run `but`. The function `most` returns the free room
// in calls and the slots of the node. If the room is 0 and the number of slots is not, wake offers the spare room
// (placement.Spare).
func (o *Offers) wake(
	ctx context.Context, node writ.NodeID, but writ.RunID, most func(journal.Load) (room, slots int),
) {
	var next []writ.RunID
	err := o.journal.Read(ctx, func(tx *journal.Tx) error {
		load, err := tx.Load(node)
		if err != nil {
			return err
		}
		room, slots := most(load)
		o.shares.Backlog.SetBacklog(node, load.Planned > 0)
		if load.Planned == 0 || room <= 0 && slots <= 0 {
			return nil
		}
		if room <= 0 {
			next, err = o.shares.spare(tx, node, load, slots)
			return err
		}
		lines, err := o.shares.Lines(tx, node, tx.Now, room, "")
		next = placement.Share(room, lines)
		return err
	})
	if err != nil {
		return // package watch offers the room again
	}
	posted := map[writ.RunID]bool{but: true}
	for _, run := range next {
		if !posted[run] {
			posted[run] = true
			o.shares.Mailbox.Post(run, mail.Mail{})
		}
	}
}
