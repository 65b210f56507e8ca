package fleet

import (
	"fmt"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

const (
	// copyFresh is the largest difference between the clock in a beat and the supervisor's clock at which the beat
	// counts as current. An older beat may be a replay.
	copyFresh = 5 * time.Second
	// copiedStays is how long a node gets no new work after another machine has sent beats under its identity.
	copiedStays = time.Minute
)

// ErrCopied is the fault of a node whose identity two machines use.
var ErrCopied = writ.Errorf(writ.CodeNodeCopied,
	"two machines act as this node: one has a copy of the other's data directory").
	WithHint("turn the copy off and empty its data directory; the other machine then gets work again")

// fault returns the fault that the supervisor derives from the last beat of a node, or "". It replaces the fault that
// the node reports.
func (seen *presence) fault(name string, now, heard time.Time) string {
	late := now.Sub(time.UnixMilli(seen.beat.Clock))
	switch {
	case seen.suspended != "": // the beat is from before the suspension: a suspended node sends no beats
		return seen.suspended
	case !seen.copied.IsZero() && heard.Sub(seen.copied) < copiedStays:
		return ErrCopied.Error()
	case seen.outranked:
		return fmt.Sprintf("%s: the node obeys a supervisor with a later epoch than this journal has. That supervisor"+
			" may have started while the clock ran ahead. Restart this supervisor after %s, or remove the node"+
			" (writ node remove %s) and join it again", writ.CodeEpochAhead,
			time.UnixMilli(seen.beat.Epoch).UTC().Format(time.DateTime), name)
	case late.Abs() > bound.MaxSkew:
		return clockFault(late)
	}
	return ""
}

// clockFault formats the clock fault of a node. late is the age of the beat by the node's clock; it is negative if that
// clock is ahead.
func clockFault(late time.Duration) string {
	way := "behind"
	if late < 0 {
		way = "ahead of"
	}
	return fmt.Sprintf("%s: the node's clock is %s %s the supervisor's clock", writ.CodeClockSkew,
		late.Abs().Round(time.Second), way)
}

// IsCopied reports whether a current beat comes from another machine than the node's last beat. Such a beat has another
// boot id and an incarnation that is not higher. A later start of the same machine has a higher incarnation. Of two
// copies, the copy with the lower incarnation is detected at its next beat. IsCopied then sets the node's fault.
func (p *Presence) IsCopied(b writ.Beat, now, heard time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.nodes[b.Node]
	if seen == nil || b.Boot == "" || seen.beat.Boot == "" || b.Boot == seen.beat.Boot ||
		b.Incarnation > seen.beat.Incarnation {
		return false
	}
	if now.Sub(time.UnixMilli(b.Clock)).Abs() > copyFresh {
		return false
	}
	seen.copied = heard
	p.members.update(b.Node, func(n *journal.Node) { n.Fault = ErrCopied.Error() })
	return true
}

// Suspend sets the reason of a node's suspension; "" ends the suspension. It also sets the node's fault, which the next
// beat determines again.
func (p *Presence) Suspend(id writ.NodeID, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members.update(id, func(n *journal.Node) { n.Fault = why }) {
		p.of(id).suspended = why
	}
}
