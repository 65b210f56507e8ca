package collect

import (
	"context"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/supervisor/fleet"
	"writ/supervisor/mail"
	"writ/supervisor/misuse"
)

// Limits of the beats of a node. A node sends at most one beat per second; a burst arrives after the queue was
// unavailable. The supervisor may have to answer each beat.
const (
	beatsPerSecond = 4
	beatsAtOnce    = 60
)

// Beats receives beats.
type Beats struct {
	site        Site
	inventories *fleet.Inventories
	roster      func() int // version of the roster in force
	rate        limit.Names
	epochs      *epochs
}

// NewBeats returns a receiver of beats. roster returns the version of the roster in force.
func NewBeats(site Site, inventories *fleet.Inventories, roster func() int) *Beats {
	return &Beats{
		site: site, inventories: inventories, roster: roster,
		rate:   limit.Names{PerSecond: beatsPerSecond, AtOnce: beatsAtOnce},
		epochs: &epochs{site: site, nodes: make(map[writ.NodeID]int64)},
	}
}

// Receive applies a beat: jobs that started, their progress, and inventories for runs that are reconciled. A beat with
// an earlier epoch than this supervisor's epoch is not applied; instead, the supervisor sends the current epoch to the
// node. Otherwise an attacker with access to Redis could record the beats of a node and replay them after the node's
// death.
func (r *Beats) Receive(ctx context.Context, node writ.NodeID, b *writ.Beat) {
	if !r.accept(node, b) {
		return
	}
	r.epochs.receive(ctx, node, b.Epoch)
	if b.Epoch < r.site.Epoch { // the beat may be a replay: only a beat with this epoch proves that the node is alive
		r.site.Outbox.Control(failpoint.At(ctx, failpoint.EpochSent), writ.Control{Node: node, Roster: r.roster()})
		return
	}
	started, progress, fresh := r.site.Fleet.Presence.Beat(*b, r.site.Epoch, r.site.Now(), time.Now())
	if !fresh {
		return
	}
	for _, key := range started {
		r.site.Mailbox.PostFrom(node, key.Run, mail.Mail{Started: []mail.Active{{Key: key, Node: node}}})
	}
	for _, p := range progress {
		r.site.Mailbox.PostFrom(node, p.Run,
			mail.Mail{Progress: []mail.Progress{{Key: p.JobKey, Node: node, Text: p.Text}}})
	}
	r.reconcile(ctx, node, b.Inventories)
}

// accept reports whether a beat is about its sender, within the rate limit, and not from a second machine with the same
// node key.
func (r *Beats) accept(node writ.NodeID, b *writ.Beat) bool {
	if b.Node != node {
		r.site.Warnings.Refused(node, "node sent the beat of another node", misuse.OfAnother(b.Node))
		r.site.Misuse.Count(node, misuse.ExtraBeats, 1)
		return false
	}
	if _, ok := r.rate.Reserve(string(node), 1, 0); !ok {
		r.site.Misuse.Count(node, misuse.ExtraBeats, 1)
		if b.Epoch >= r.site.Epoch { // older beats queued up while no supervisor ran
			r.site.Warnings.Refused(node, "node sends too many beats; some are dropped",
				misuse.TooOften("at most %d per second are accepted", beatsPerSecond))
		}
		return false
	}
	if r.site.Fleet.Presence.IsCopied(*b, r.site.Now(), time.Now()) {
		r.site.Warnings.Refused(node, "two machines act as one node", fleet.ErrCopied)
		r.site.Misuse.Block(node, fleet.ErrCopied)
		return false
	}
	return true
}

// reconcile records the inventories of a node and requests the missing inventories. An inventory for an earlier epoch
// is ignored, because the earlier supervisor may have sent more calls since.
func (r *Beats) reconcile(ctx context.Context, node writ.NodeID, all []writ.Inventory) {
	for _, one := range all {
		if one.Epoch == r.site.Epoch && r.inventories.Add(node, one.Run, one.Calls) {
			r.site.Mailbox.Post(one.Run, mail.Mail{})
		}
	}
	if asked := r.inventories.Unanswered(node); len(asked) > 0 {
		r.site.Outbox.Control(failpoint.At(ctx, failpoint.RunsAsked), writ.Control{Node: node, Asked: asked})
	}
}
