package supervisor

import (
	"time"

	"writ"
)

const (
	// copyFresh is the largest difference between the clock in a beat and the supervisor's clock at which the beat
	// counts as current. An older beat may be a replay.
	copyFresh = 5 * time.Second
	// copiedStays is how long a node gets no new work after another machine has sent beats under its identity.
	copiedStays = time.Minute
)

var errCopied = writ.Errorf(writ.CodeNodeCopied,
	"two machines speak as this node: one has a copy of the other's data directory").
	WithHint("turn the copy off and empty its data directory; the other one gets work again by itself")

// isCopied reports whether a current beat comes from another machine than the node's last beat: it has another boot id
// and an incarnation that is not higher. A later start of the same machine has a higher incarnation. Of two copies, the
// one with the lower incarnation is detected at its next beat. isCopied then sets the node's fault.
func (f *fleet) isCopied(b writ.Beat, now, heard time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[b.Node]
	if m == nil || b.Boot == "" || m.beat.Boot == "" || b.Boot == m.beat.Boot || b.Incarnation > m.beat.Incarnation {
		return false
	}
	if now.Sub(time.UnixMilli(b.Clock)).Abs() > copyFresh {
		return false
	}
	m.copied, m.Fault = heard, errCopied.Error()
	return true
}
