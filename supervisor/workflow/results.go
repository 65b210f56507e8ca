package workflow

import (
	"fmt"

	"writ"
	"writ/internal/clip"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// validateResult returns a result in bounded form. A success that does not fit its operation becomes a failure.
func validateResult(run *journal.Run, c *journal.Call, r writ.Result) writ.Result {
	r.Driver = clip.Text(r.Driver, bound.MaxWord)
	if r.Error == nil {
		if err := misfit(run, c, r); err != nil {
			r.Error = err
		}
	}
	if r.Error == nil {
		return r
	}
	r.Change, r.Values = writ.ChangeNone, nil
	if r.Error.Code.Info().Code != r.Error.Code {
		r.Error.Code = writ.CodeInternal // the node has another version, or it lies
	}
	r.Error = bound.Error(r.Error)
	if c.Seq > scripts.MaxOpenCalls {
		r.Error.Message, r.Error.Hint = clip.Text(r.Error.Message, laterMessage), clip.Text(r.Error.Hint, laterHint)
	}
	return r
}

// Limits of the error of a call after the first scripts.MaxOpenCalls, in bytes. The evaluator gets the errors of all
// calls in one frame. A message has room for the last KiB of a program's output.
const laterMessage, laterHint = 1280, 256

// misfit returns an error if a success does not fit its operation or the limits of the run, else nil.
func misfit(run *journal.Run, c *journal.Call, r writ.Result) *writ.Error {
	if err := writ.CheckValue(r.Values); err != nil {
		return writ.Errorf(writ.CodeInternal, "the node answered %s with an invalid value: %v", c.Operation, err)
	}
	switch size := bound.Size(r.Values); {
	case size > scripts.MaxResult:
		return writ.Errorf(writ.CodeScriptLimit, "the result has %d KiB, %d are possible", size>>10, scripts.MaxResult>>10)
	case run.Bytes+size > scripts.MaxJournal:
		return writ.Errorf(writ.CodeScriptLimit, "the arguments and results of a run may have %d KiB in all",
			scripts.MaxJournal>>10)
	}
	if op, ok := catalog.Lookup(c.Operation); ok {
		if problems := op.Result.Check(r.Values, nil); len(problems) > 0 {
			return writ.Errorf(writ.CodeInternal, "the node answered %s with an invalid result: %s", c.Operation,
				clip.Text(problems[0].Message, bound.MaxText))
		}
	}
	switch r.Change {
	case writ.ChangeNone, writ.ChangeCreated, writ.ChangeUpdated, writ.ChangeUnchanged, writ.ChangeDeleted:
		return nil
	default:
		return writ.Errorf(writ.CodeInternal, "the node answered %s with an unknown change", c.Operation)
	}
}

// completeValues adds the values that the supervisor supplies: the name of the node.
func completeValues(c *journal.Call, values map[string]any) map[string]any {
	op, ok := catalog.Lookup(c.Operation)
	if !ok || values == nil {
		return values
	}
	if _, has := op.Result.Field("node"); has && c.NodeName != "" {
		values["node"] = c.NodeName
	}
	return values
}

// leftover is a resource that an earlier call left on a node, because the node was lost or its driver ignored its
// deadline. The next call that makes a resource of this name finds it. Its UID is derived from the earlier call and so
// proves the origin of the resource. The new call may then take over the resource.
type leftover struct {
	uid        writ.UID
	run        writ.RunID
	deployment string // deployment of the earlier run
	by         string // description of the earlier call, for messages
}

// leftoverOf returns the leftover resource of an earlier call that blocked call c, or nil.
func leftoverOf(tx *journal.Tx, c *journal.Call, a mail.Arrival) (*leftover, error) {
	if a.Result.Found == "" || a.Result.Error == nil || a.Result.Error.Code != writ.CodeResourceConflict || c == nil ||
		c.Node != a.Node {
		return nil, nil
	}
	if op, ok := catalog.Lookup(c.Operation); !ok || op.Effect != catalog.Make {
		return nil, nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return nil, err
	}
	if have != nil { // the late result of the earlier call was applied before
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

// takeOver plans another attempt of a call that has just failed. The attempt takes over the resource that an earlier
// call left. takeOver keeps the failure if the resource has another owner and the call does not adopt it.
func (t *receiver) takeOver(c *journal.Call, left *leftover) error {
	if left.deployment != t.run.Deployment && !c.Options.Adopt {
		owner := &journal.Resource{Resource: writ.Resource{ResourceID: c.Resource(), Deployment: left.deployment}}
		err := notOwner(owner)
		err.Message += "; it was left on " + c.NodeName + " by " + left.by
		c.Error = err
		return nil
	}
	before := c.UID
	for _, e := range t.calls.all { // later calls of the run on the same resource
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
