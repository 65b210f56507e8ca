package workflow

import (
	"encoding/json"
	"maps"
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// foresight is the expected outcome of a call.
type foresight struct {
	action writ.Action
	fields []writ.FieldChange
	drift  []string       // differences between the resource and its arguments, as last reported by its node
	values map[string]any // known values of the resource after the call
	err    *writ.Error    // nil unless the call is expected to fail
}

// change returns the change that a result with the expected action reports.
func (f *foresight) change() writ.Change {
	switch f.action {
	case writ.ActionCreate:
		return writ.ChangeCreated
	case writ.ActionUpdate, writ.ActionAct, writ.ActionUnknown:
		return writ.ChangeUpdated
	case writ.ActionDelete:
		return writ.ChangeDeleted
	default:
		return writ.ChangeUnchanged
	}
}

// foresee predicts the outcome of a call. `have` is its resource, nil if missing.
func (p *ProposedCall) foresee(t *Step, c *journal.Call, have *journal.Resource) foresight {
	f := foresight{values: map[string]any{}}
	if have != nil {
		maps.Copy(f.values, have.Values)
		f.drift = driftOf(have)
	}
	args := t.calls.withResources(p.Op, c)
	switch p.Op.Effect {
	case catalog.Look:
		f.action = writ.ActionRead
		if p.Op.Repeat == catalog.Once {
			f.action = writ.ActionAct
		}
	case catalog.Remove:
		f.action = writ.ActionDelete
		if have == nil {
			f.action = writ.ActionUnchanged
		}
	case catalog.Make:
		p.foreseeMake(&f, c.Resource(), args, have)
	default:
		p.foreseeAlter(&f, c.Resource(), args, have)
	}
	if f.err == nil {
		p.keepSizes(&f, args)
		keepDisks(&f, p.Op, args)
	}
	return f
}

// driftOf returns the drift of a resource, as sentences.
func driftOf(have *journal.Resource) []string {
	if have.State == catalog.Gone && len(have.Drift) == 0 {
		return []string{"its node no longer has it"}
	}
	return have.Drift
}

// foreseeMake compares the arguments with the arguments that made the resource, as its driver does.
func (p *ProposedCall) foreseeMake(f *foresight, id writ.ResourceID, args map[string]any, have *journal.Resource) {
	switch {
	case have == nil || have.State == catalog.Gone: // its node makes it again, regardless of the earlier arguments
		f.action = writ.ActionCreate
		return
	case have.Operation == "": // made by a version that did not record the operation
		f.action = writ.ActionAct
		return
	}
	old, now := p.known(have.Args), p.known(args)
	changed, err := p.Op.Remake(id, have.Operation, old, now)
	if err != nil {
		f.err = writ.AsError(err)
		return
	}
	if f.err = p.shrinks(id, changed, args, have); f.err != nil {
		return
	}
	f.fields = fieldChanges(changed, have.Args, args)
	switch {
	case len(changed) > 0:
		f.action = writ.ActionUpdate
	case len(p.unknown) > 0:
		f.action = writ.ActionUnknown
	case len(f.drift) > 0: // the arguments are unchanged, but only the node knows whether it can repair the drift
		f.action = writ.ActionAct
	default:
		f.action = writ.ActionUnchanged
	}
	f.fields = append(f.fields, fieldChanges(p.unknown, have.Args, nil)...)
}

// foreseeAlter compares the arguments with the values that they set. It makes a prediction only if each argument
// corresponds to a value of the resource, or if Resource.Holds lists the same operation and arguments.
func (p *ProposedCall) foreseeAlter(f *foresight, id writ.ResourceID, args map[string]any, have *journal.Resource) {
	f.action = writ.ActionAct
	if have == nil || p.Op.Repeat == catalog.Once || len(p.unknown) > 0 || len(f.drift) > 0 {
		return
	}
	if slices.Contains(have.Holds, actOf(p.Op, args)) {
		f.action = writ.ActionUnchanged
		return
	}
	var changed []string
	for _, field := range p.Op.Args {
		v, given := args[field.Name]
		if !given {
			continue
		}
		before, has := have.Values[field.Name]
		if set, sets := p.Op.Result.Field(field.Name); !sets || set.Type != field.Type || !has {
			return // the argument has no corresponding value
		}
		if v != before {
			changed = append(changed, field.Name)
		}
	}
	if len(args) == 0 {
		return
	}
	if f.err = p.shrinks(id, changed, args, have); f.err != nil {
		return
	}
	f.action, f.fields = writ.ActionUnchanged, fieldChanges(changed, have.Values, args)
	if len(changed) > 0 {
		f.action = writ.ActionUpdate
	}
}

// known returns args without the fields that contain unknown values.
func (p *ProposedCall) known(args map[string]any) map[string]any {
	if len(p.unknown) == 0 {
		return args
	}
	args = maps.Clone(args)
	for _, name := range p.unknown {
		delete(args, name)
	}
	return args
}

// shrinks returns the error of a call that would shrink a disk, which no driver supports. It returns nil for other
// calls.
func (p *ProposedCall) shrinks(
	id writ.ResourceID, changed []string, args map[string]any, have *journal.Resource,
) *writ.Error {
	for _, name := range changed {
		field, _ := p.Op.Args.Field(name)
		has, _ := have.Values[name].(int64)
		if wanted, ok := args[name].(int64); ok && field.Uses == "disk_gib" && wanted < has {
			return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", id, has, wanted).
				WithHint("create a smaller resource under another name, and copy the content")
		}
	}
	return nil
}

// keepSizes copies the arguments that determine the size and format of a resource to its values, for the following
// calls.
func (p *ProposedCall) keepSizes(f *foresight, args map[string]any) {
	for _, field := range p.Op.Args {
		if n, ok := args[field.Name].(int64); ok && field.Uses != "" {
			f.values[field.Name] = n
		}
		if text, ok := args[field.Name].(string); ok && field.Name == "format" {
			f.values[field.Name] = text
		}
	}
}

// maxShown limits a value in a field change, in bytes of JSON.
const maxShown = 256

func fieldChanges(names []string, from, to map[string]any) []writ.FieldChange {
	var changes []writ.FieldChange
	for _, name := range names {
		changes = append(changes, writ.FieldChange{Field: name, From: previewValue(from[name]), To: previewValue(to[name])})
	}
	return changes
}

func previewValue(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > maxShown {
		return nil
	}
	return text
}
