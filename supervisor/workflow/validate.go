package workflow

import (
	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// validateResult returns a result as the run takes it: as it is if it fits the operation, otherwise as a failure that says why.
func (t receiver) validateResult(c *journal.Call, r writ.Result) writ.Result {
	r.Driver = bound.Clip(r.Driver, bound.MaxWord)
	if r.Error == nil {
		if err := t.misfit(c, r); err != nil {
			r.Error = err
		}
	}
	if r.Error == nil {
		return r
	}
	r.Change, r.Values = writ.ChangeNone, nil
	if r.Error.Code.Info().Code != r.Error.Code {
		r.Error.Code = writ.CodeInternal // a node of another version, or one that lies
	}
	r.Error = &writ.Error{Code: r.Error.Code, Message: bound.Clip(r.Error.Message, bound.MaxText), Hint: bound.Clip(r.Error.Hint, bound.MaxText)}
	return r
}

// misfit says what is wrong with a success, nil if nothing is.
func (t receiver) misfit(c *journal.Call, r writ.Result) *writ.Error {
	if err := writ.CheckValue(r.Values); err != nil {
		return writ.Errorf(writ.CodeInternal, "the node answered %s with what is no value: %v", c.Operation, err)
	}
	switch size := bound.Size(r.Values); {
	case size > scripts.MaxResult:
		return writ.Errorf(writ.CodeScriptLimit, "the result has %d KiB, %d are possible", size>>10, scripts.MaxResult>>10)
	case t.run.Bytes+size > scripts.MaxJournal:
		return writ.Errorf(writ.CodeScriptLimit, "the arguments and results of a run may have %d KiB in all", scripts.MaxJournal>>10)
	}
	if op, ok := catalog.Lookup(c.Operation); ok {
		if problems := op.Result.Check(r.Values, nil); len(problems) > 0 {
			return writ.Errorf(writ.CodeInternal, "the node answered %s with what is no result of it: %s", c.Operation, bound.Clip(problems[0].Message, bound.MaxText))
		}
	}
	switch r.Change {
	case writ.ChangeNone, writ.ChangeCreated, writ.ChangeUpdated, writ.ChangeUnchanged, writ.ChangeDeleted:
		return nil
	default:
		return writ.Errorf(writ.CodeInternal, "the node answered %s with an unknown change", c.Operation)
	}
}
