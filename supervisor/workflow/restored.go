package workflow

import (
	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// reconciles reports whether nodes may have calls of the run that the journal does not know of. A preview asks nobody.
func (t waiter) reconciles() bool {
	return t.verdicts == nil && t.run.Reconciles(t.Inventories.RestoredUntil(), identity.Skew)
}

// waitsForInventories reports whether a run waits for the inventory of a node. Until then, what was never sent, as far as the journal
// knows, waits too.
func (t waiter) waitsForInventories() bool {
	if t.run.Stop != nil || !t.reconciles() {
		return false
	}
	why := t.Inventories.Missing(t.run.ID)
	if why.IsZero() {
		return false
	}
	for _, c := range t.calls {
		if c.State != writ.CallPlanned || c.Claimed && !neverSent(c) {
			continue
		}
		if c.Claimed { // where the journal has it may not be where it was sent
			t.unclaim(c)
		}
		t.delay(c, why)
	}
	return true
}

// holders returns the nodes that have a call of which the journal does not know that it was sent. Of those that have one which leaves
// nothing behind the first will do; of any other there are not two, unless one of them lies, and nobody can tell which.
func (t waiter) holders(c *journal.Call) []writ.NodeID {
	if !t.reconciles() || c.Node != "" && !neverSent(c) {
		return nil
	}
	nodes := t.Inventories.Having(t.run.ID, c.Seq)
	if len(nodes) > 1 && leavesNothing(c) {
		return nodes[:1]
	}
	return nodes
}
