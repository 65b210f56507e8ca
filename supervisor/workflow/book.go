package workflow

import (
	"writ"
	"writ/internal/cbor"
	"writ/sal/catalog"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// book records a result and its effect on the resource.
func (t writer) book(tx *journal.Tx, s appliedResult) error {
	c := s.call
	first, err := tx.AddResult(c, s.Result.Attempt, s.Frame)
	if err != nil || !first {
		return err // it was booked when it came first; its acknowledgement got lost
	}
	op, ok := catalog.Lookup(c.Operation)
	if !ok || !op.Named() || s.Result.Error != nil || op.Effect == catalog.Look && op.Uses == nil {
		return nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Look {
		return chargeLook(tx, op, c, have, s.Result)
	}
	after, told := t.effect(op, c, have, s.Result)
	switch {
	case !told:
		return nil
	case after == nil:
		gone := have.Resource
		gone.Deleted, gone.Run, gone.Updated = true, t.run.ID, t.now
		t.events = append(t.events, writ.Event{Resource: EventResource(gone)})
		return tx.RemoveResource(c.Resource())
	}
	t.events = append(t.events, writ.Event{Resource: EventResource(after.Resource)})
	return tx.PutResource(after)
}

// chargeLook records the disk space of a resource after an operation that only reads it, but stores data beside it, such
// as an archive.
func chargeLook(tx *journal.Tx, op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result) error {
	if have == nil || have.UID != c.UID {
		return nil
	}
	after := *have
	after.Need = uses(op, c.Args, result.Values, have.Need)
	if after.Need == have.Need {
		return nil
	}
	return tx.PutResource(&after)
}

// effect returns the resource after a successful call, or nil if the call removed it. have is the resource before the call
// and stays unchanged. told is false if the result does not determine the resource.
func (t writer) effect(op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result) (after *journal.Resource, told bool) {
	switch {
	case have != nil && have.UID != c.UID:
		return nil, false // the result is late: another call has made the resource again
	case have != nil && op.Effect == catalog.Remove:
		return nil, true
	case have != nil:
		copied := *have
		after = &copied
	case op.Effect != catalog.Make:
		return nil, false // a late word on a resource that was removed meanwhile
	default:
		after = &journal.Resource{Resource: writ.Resource{
			ResourceID: c.Resource(), UID: c.UID, Datacenter: t.Datacenter, Created: t.now, Deployment: t.run.Deployment,
		}}
	}
	if op.Effect == catalog.Make && result.Change != writ.ChangeUnchanged {
		after.Drift = nil // until the next report of the node
	}
	if c.Options.Adopt {
		after.Deployment = t.run.Deployment
	}
	after.Node, after.Driver, after.Simulated = c.Node, result.Driver, result.Simulated
	after.Values, after.Run, after.Updated = receiver(t).completeValues(c, result.Values), t.run.ID, t.now
	after.Standing = bound.Standing(catalog.StandingOf(result.Values))
	after.Need = uses(op, c.Args, result.Values, after.Need)
	args := t.handlesNamed(op, c)
	if op.Effect == catalog.Make {
		after.Operation, after.Args = op.Name(), args
	}
	switch act := actOf(op, args); {
	case result.Change == writ.ChangeUnchanged && op.Repeat == catalog.Safe && op.Effect == catalog.Alter:
		after.Holds = journal.AddHeld(after.Holds, act)
	case result.Change == writ.ChangeUpdated && op.Repeat == catalog.Safe && op.Effect == catalog.Alter:
		after.Holds = []writ.Digest{act}
	case result.Change != writ.ChangeUnchanged:
		after.Holds = nil
	}
	return after, true
}

// handlesNamed returns the arguments of a call with resources in place of handles. Handles of unknown resources stay.
func (t writer) handlesNamed(op *catalog.Operation, c *journal.Call) map[string]any {
	args, _ := op.Args.ReplaceHandles(c.Args, func(handle any) (any, error) { // cannot fail: this does not
		if ref, err := t.ref(handle); err == nil {
			return ref, nil
		}
		return handle, nil
	})
	return args
}

// actOf names an operation with its arguments.
func actOf(op *catalog.Operation, args map[string]any) writ.Digest {
	text, err := cbor.Marshal([]any{op.Name(), op.Args.Fill(args)})
	if err != nil {
		return writ.Digest{} // values always have an encoding
	}
	return writ.DigestOf(text)
}

// EventResource is a resource as it leaves the datacenter: without values.
func EventResource(r writ.Resource) *writ.Resource {
	r.Values = nil
	return &r
}

// uses returns the capacity that a resource occupies after op. Amounts that op does not change stay as before. The result
// of op may add to its arguments, such as the size of archives, and may say that nothing is left.
func uses(op *catalog.Operation, args, result map[string]any, before writ.Capacity) writ.Capacity {
	after := writ.Capacity{}
	if op.Needs != nil {
		after = op.Needs(args)
	}
	measured := false
	if op.Uses != nil && result != nil {
		var disk int64
		disk, measured = op.Uses(result)
		after.DiskGiB = max(after.DiskGiB, bound.Amount(disk))
	}
	if after.CPUs == 0 {
		after.CPUs = before.CPUs
	}
	if after.MemoryMiB == 0 {
		after.MemoryMiB = before.MemoryMiB
	}
	if after.DiskGiB == 0 && !measured {
		after.DiskGiB = before.DiskGiB
	}
	return after
}
