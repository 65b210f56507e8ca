package workflow

import (
	"fmt"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// A call that was given up may have made its resource all the same: its node was lost, or its driver did not stop when its time was over.
// Nobody knows of that thing until the next call that makes one of this name finds it in its way. It is ours, by the uid that follows from
// the call that made it, and taken over.

// leftover is a thing that an earlier call left on a node.
type leftover struct {
	uid        writ.UID
	run        writ.RunID
	deployment string // that the run made a revision of
	by         string // who left it, for people
}

// leftoverOf finds out whose the thing is that stood in the way of a call, nil if nothing did or it is not ours.
func (t receiver) leftoverOf(tx *journal.Tx, a mail.Arrival) (*leftover, error) {
	c := t.call(a.Result.Seq)
	if a.Result.Found == "" || a.Result.Error == nil || a.Result.Error.Code != writ.CodeResourceConflict || c == nil || c.Node != a.Node {
		return nil, nil
	}
	if op, ok := catalog.Lookup(c.Operation); !ok || op.Effect != catalog.Make {
		return nil, nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return nil, err
	}
	if have != nil { // its late word came before this one
		if have.UID != a.Result.Found || have.Node != a.Node {
			return nil, nil
		}
		return &leftover{have.UID, have.Run, have.Deployment, "run " + string(have.Run)}, nil
	}
	calls, err := tx.LeftCalls(c.Resource())
	if err != nil {
		return nil, err
	}
	for _, left := range calls {
		if newUID(left) != a.Result.Found || left.Node != a.Node {
			continue
		}
		run, err := tx.Run(left.Run)
		if err != nil || run == nil {
			return nil, err
		}
		by := fmt.Sprintf("call %d of run %s, which is %s", left.Seq, left.Run, left.State)
		return &leftover{a.Result.Found, left.Run, run.Deployment, by}, nil
	}
	return nil, nil
}

// takeOver lets a call go on with what an earlier one left, if both are of the same owner. It has failed just now.
func (t receiver) takeOver(c *journal.Call, left *leftover) error {
	if left.deployment != t.run.Deployment && !c.Options.Adopt {
		owner := &journal.Resource{Resource: writ.Resource{ResourceID: c.Resource(), Deployment: left.deployment}}
		err := claimer(t).notOwner(owner)
		err.Message += "; it was left on " + c.NodeName + " by " + left.by
		c.Error = err
		return nil
	}
	before := c.UID
	for _, e := range t.calls { // later calls of the run on it mean the same
		if e.Resource() == c.Resource() && e.UID == before && !e.State.Ended() {
			e.UID = left.uid
			t.touch(e)
		}
	}
	c.UID = left.uid
	if err := t.tryAgain(c); err != nil {
		return err
	}
	c.RetryAt = t.now
	c.Why = writ.Reason{Code: writ.ReasonTakeOver, Resource: c.Resource().String(), Node: c.NodeName, Text: left.by}
	return nil
}
