package workflow

import (
	"writ"
	"writ/internal/cbor"
	"writ/sal/catalog"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// chargeLook records the disk space of a resource after an operation that reads the resource but stores data beside it,
// such as an archive.
func chargeLook(
	tx *journal.Tx, op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result,
) error {
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

// actOf returns the digest of an operation with its arguments.
func actOf(op *catalog.Operation, args map[string]any) writ.Digest {
	text, err := cbor.Marshal([]any{op.Name(), op.Args.Fill(args)})
	if err != nil {
		return writ.Digest{} // values always have an encoding
	}
	return writ.DigestOf(text)
}

// EventResource returns a resource for an event: without its values, which do not leave the datacenter in events.
func EventResource(r writ.Resource) *writ.Resource {
	r.Values = nil
	return &r
}

// uses returns the capacity that a resource occupies after op. Amounts that op does not change stay as in `before`. The
// result of op may contain a size that the arguments lack, such as the size of archives. A disk size of 0 in the result
// replaces the previous size.
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
	if after.CPU() == 0 {
		after = after.WithCPU(before.CPU())
	}
	if after.MemoryMiB == 0 {
		after.MemoryMiB = before.MemoryMiB
	}
	if after.DiskGiB == 0 && !measured {
		after.DiskGiB = before.DiskGiB
	}
	return after
}

// resourceAfter returns the resource after a successful call, or nil if the call removed it. `have` is the resource
// before the call and stays unchanged. If `told` is false, the result does not affect the resource.
func resourceAfter(
	t *Step, op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result,
) (after *journal.Resource, told bool) {
	switch {
	case have != nil && have.UID != c.UID:
		return nil, false // late result: another call has made the resource again
	case have != nil && op.Effect == catalog.Remove:
		return nil, true
	case have != nil:
		copied := *have
		after = &copied
	case op.Effect != catalog.Make:
		return nil, false // late result for a resource that was removed meanwhile
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
	after.Values, after.Run, after.Updated = completeValues(c, result.Values), t.run.ID, t.now
	after.Standing = bound.Standing(catalog.StandingOf(result.Values))
	after.Need = uses(op, c.Args, result.Values, after.Need)
	args := t.calls.withResources(op, c)
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
