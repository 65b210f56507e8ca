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

var errCopied = writ.Errorf(writ.CodeNodeCopied, "another machine speaks as this node, or its data directory was put back to an earlier state").
	WithHint("turn the copy off and empty its data directory, or remove the node and let it join anew")

// isCopied reports whether a beat of now is from another machine, or another life of it, than the one that was heard last: a start of a machine counts
// one more on its disk than the start before.
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
