package supervisor

import (
	"time"

	"writ"
)

const (
	// copyFresh is how far the clock of a beat may be off for the beat to be one of now, and none that somebody kept and sends again.
	copyFresh = 5 * time.Second
	// copiedStays is for how long a node gets no work after another machine spoke as it.
	copiedStays = time.Minute
)

var errCopied = writ.Errorf(writ.CodeNodeCopied, "two machines speak as this node: one has a copy of the other's data directory").
	WithHint("turn the copy off and empty its data directory; the other one gets work again by itself")

// isCopied reports whether a beat of now is from another machine than the one that was heard last: a later start of the same machine has a higher
// number. Of two copies the one with the lower number is noticed, as soon as it says something.
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
