package scripts

import (
	"fmt"
	"strconv"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
)

// handle is what a call of an operation returns at once: it stands for what the call makes. Reading a field waits for the call's
// result; passing the handle to another call makes that call wait instead.
type handle struct {
	tengo.ObjectImpl
	pass *pass
	op   *catalog.Operation
	seq  int
	name string // of the resource, "" if the operation has none

	later *unknown // the name, in a plan that does not know it yet
}

// The fields that every handle has besides those of its operation's result.
const (
	fieldErr  = "err"  // waits; undefined, or what went wrong
	fieldName = "name" // of handles to resources: known at once
)

func (h *handle) TypeName() string   { return "handle" }
func (h *handle) Copy() tengo.Object { return h }

// String is the same in every pass, and waits for nothing.
func (h *handle) String() string {
	if h.name == "" { // or not known yet
		return "<" + h.op.Name() + " " + strconv.Itoa(h.seq) + ">"
	}
	return "<" + string(h.op.Kind) + " " + h.name + ">"
}

func (h *handle) Equals(other tengo.Object) bool {
	o, ok := other.(*handle)
	return ok && o.seq == h.seq
}

// kind is what the handle is to, as arguments see it. Handles of operations without a resource fit no argument.
func (h *handle) kind() writ.ResourceKind {
	if h.op.Kind == "" {
		return writ.ResourceKind(h.op.Module)
	}
	return h.op.Kind
}

// refKey is the only key of a handle among values that travel.
const refKey = "ref"

// form is the handle among values that travel.
func (h *handle) form() map[string]any { return map[string]any{refKey: int64(h.seq)} }

// RefOf reads a handle among values that travel, {"ref": seq}.
func RefOf(v any) (seq int, ok bool) {
	m, _ := v.(map[string]any)
	n, ok := m[refKey].(int64)
	return int(n), ok && len(m) == 1
}

// isHandle tells the catalogue what is a handle among values.
func isHandle(v any) (writ.ResourceKind, bool) {
	h, ok := v.(*handle)
	if !ok {
		return "", false
	}
	return h.kind(), true
}

// handleFields returns the fields that a handle of op has.
func handleFields(op *catalog.Operation) []string {
	return append(op.Result.Names(), fieldErr)
}

// IndexGet reads a field. A wait is no error, for which the VM could not be used again: the VM stops before its next instruction.
func (h *handle) IndexGet(index tengo.Object) (tengo.Object, error) {
	o, err := h.field(index)
	if wait, ok := err.(*suspension); ok {
		h.pass.suspended = wait
		h.pass.vm.Abort()
		return tengo.UndefinedValue, nil
	}
	return o, throw(err)
}

func (h *handle) field(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	if key.Value == fieldName && h.name != "" {
		return &tengo.String{Value: h.name}, nil
	}
	if key.Value == fieldName && h.later != nil {
		return h.later, nil
	}
	field, known := h.op.Result.Field(key.Value)
	if !known && key.Value != fieldErr {
		return nil, h.noField(key.Value)
	}
	if h.pass.plan != nil {
		return h.planned(key.Value, known)
	}
	entry := h.pass.entry(h.seq)
	if entry == nil || entry.State == EntryOpen {
		return nil, &suspension{seq: h.seq}
	}
	h.pass.reads.add(h.seq, h.pass.vm)
	if !known {
		return h.failure(entry)
	}
	if entry.State == EntryFailed {
		return nil, h.failed(entry)
	}
	return h.pass.result(h, entry, field.Name)
}

// planned is a field in a plan: not known, unless the plan was given the result.
func (h *handle) planned(field string, ofResult bool) (tengo.Object, error) {
	plan := h.pass.plan
	plan.reads(h.seq)
	values, given := plan.given[h.seq]
	switch {
	case !given:
		return plan.unknown([]int{h.seq}), nil
	case !ofResult: // err: what was given succeeds
		return tengo.UndefinedValue, nil
	}
	if err := h.pass.keep(4 * sizeOf(values[field])); err != nil {
		return nil, err
	}
	return objectOf(values[field])
}

func (h *handle) noField(name string) error {
	return fmt.Errorf("%s has no field %q; %s", h.op.Name(), name, memberHelp("it", name, handleFields(h.op)))
}

// failure is the value of the field err.
func (h *handle) failure(entry *Entry) (tengo.Object, error) {
	h.pass.reads.handled[h.seq] = true
	if entry.State != EntryFailed {
		return tengo.UndefinedValue, nil
	}
	err := reason(entry)
	if err := h.pass.keep(sizeMap + 3*sizeKey); err != nil {
		return nil, err
	}
	return &tengo.ImmutableMap{Value: map[string]tengo.Object{
		"code":      &tengo.String{Value: string(err.Code)},
		"message":   &tengo.String{Value: err.Message},
		"retryable": boolean(err.Retryable()),
	}}, nil
}

// failed is the error that ends a script which reads a result that will never be there.
func (h *handle) failed(entry *Entry) error {
	err := *reason(entry)
	what := h.op.Name()
	if h.name != "" {
		what += " " + h.name
	}
	err.Message = what + " failed: " + err.Message
	return &callFailure{seq: h.seq, err: &err}
}

// reason is why a call failed; a journal that does not say is damaged.
func reason(entry *Entry) *writ.Error {
	if entry.Error != nil {
		return entry.Error
	}
	return writ.Errorf(writ.CodeInternal, "the journal does not say why")
}

// suspension ends a pass that reads what is not there yet.
type suspension struct{ seq int }

func (s *suspension) Error() string { return fmt.Sprintf("waits for call %d", s.seq) }

// callFailure unwinds a script that reads the result of a failed call.
type callFailure struct {
	seq int
	err *writ.Error
}

func (f *callFailure) Error() string { return f.err.Message }
func (f *callFailure) Unwrap() error { return f.err }
