package interpreter

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
)

// handle is the immediate result of a call: it represents the future result. Reading a field waits for the call. If the
// handle is an argument of another call, that call waits instead.
type handle struct {
	tengo.ObjectImpl
	pass *pass
	op   *catalog.Operation
	seq  int
	name string // of the resource, "" for an operation without a resource

	later *unknown // the unknown name in a plan, otherwise nil

	result  result
	read    bool // a field was read
	handled bool // the field err was read
}

// result is the result of a call, as far as the journal has it.
type result struct {
	state  scripts.EntryState // "" if the call is new
	values map[string]any
	err    *writ.Error
	size   int // of the values, in bytes
}

// open reports whether the call has not ended.
func (r *result) open() bool { return r.state == "" || r.state == scripts.EntryOpen }

// set stores the result in a journal entry.
func (r *result) set(e *scripts.Entry, size int) {
	*r = result{state: e.State, values: e.Values, err: e.Error, size: size}
}

// The fields of every handle, in addition to the result fields of its operation.
const (
	FieldErr  = "err"  // a read waits for the call; undefined, or the error
	FieldName = "name" // of handles to resources: known at once
)

func (h *handle) TypeName() string   { return "handle" }
func (h *handle) Copy() tengo.Object { return h }

// String is the same in every pass and does not wait.
func (h *handle) String() string {
	if h.name == "" { // or unknown in a plan
		return "<" + h.op.Name() + " " + strconv.Itoa(h.seq) + ">"
	}
	return "<" + string(h.op.Kind) + " " + h.name + ">"
}

func (h *handle) Equals(other tengo.Object) bool {
	o, ok := other.(*handle)
	return ok && o.seq == h.seq
}

// kind returns the kind of resource that the handle represents as an argument. Handles of operations without a resource
// fit no argument.
func (h *handle) kind() writ.ResourceKind {
	return cmp.Or(h.op.Kind, writ.ResourceKind(h.op.Module))
}

// form returns the handle as an encodable value.
func (h *handle) form() map[string]any { return map[string]any{scripts.RefKey: int64(h.seq)} }

// isHandle recognizes handles for the catalogue.
func isHandle(v any) (writ.ResourceKind, bool) {
	h, ok := v.(*handle)
	if !ok {
		return "", false
	}
	return h.kind(), true
}

// HandleFields returns the fields of the handle that an operation returns.
func HandleFields(op *catalog.Operation) []string {
	return append(op.Result.Names(), FieldErr)
}

// IndexGet reads a field.
func (h *handle) IndexGet(index tengo.Object) (tengo.Object, error) {
	o, err := h.field(index)
	if wait, ok := err.(*suspension); ok {
		return h.pass.suspend(wait), nil
	}
	return o, throw(err)
}

func (h *handle) field(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	if key.Value == FieldName && h.name != "" {
		return &tengo.String{Value: h.name}, nil
	}
	if key.Value == FieldName && h.later != nil {
		return h.later, nil
	}
	field, known := h.op.Result.Field(key.Value)
	if !known && key.Value != FieldErr {
		return nil, h.noField(key.Value)
	}
	if h.pass.plan != nil {
		return h.planned(key.Value, known)
	}
	if h.result.open() && !h.pass.waiting.until(h.seq) {
		return nil, &suspension{seq: h.seq}
	}
	if !h.read { // only the first read counts, because an earlier pass may have ended there
		h.read = true
		h.pass.lastRead = here(h.pass.vm)
	}
	if !known {
		return h.failure()
	}
	if h.result.state == scripts.EntryFailed {
		return nil, h.failed()
	}
	return h.value(field.Name)
}

// value returns a field of the result.
func (h *handle) value(field string) (tengo.Object, error) {
	if h.result.size > scripts.MaxResult {
		return nil, writ.Errorf(writ.CodeScriptLimit, "the result of %s has more than %d bytes", h, scripts.MaxResult)
	}
	v := h.result.values[field]
	if err := h.pass.meter.burnMemory(4 * scripts.EncodedSize(v)); err != nil {
		return nil, err
	}
	return objectOf(v)
}

// await returns a suspension if the call is open, and a callFailure if it failed. In a plan it only records the wait.
func (h *handle) await() error {
	switch {
	case h.pass.plan != nil:
		h.pass.plan.reads(h.seq)
	case h.result.open() && !h.pass.waiting.until(h.seq):
		return &suspension{seq: h.seq}
	case h.result.state == scripts.EntryFailed:
		return &callFailure{seq: h.seq, err: h.reason()}
	}
	return nil
}

// planned returns a field in a plan. The field is unknown unless the result of the call is given.
func (h *handle) planned(field string, ofResult bool) (tengo.Object, error) {
	plan := h.pass.plan
	plan.reads(h.seq)
	values, given := plan.given[h.seq]
	switch {
	case !given:
		return plan.unknown([]int{h.seq}), nil
	case !ofResult: // the field err: a call with a given result succeeds
		return tengo.UndefinedValue, nil
	}
	if err := h.pass.meter.burnMemory(4 * scripts.EncodedSize(values[field])); err != nil {
		return nil, err
	}
	return objectOf(values[field])
}

func (h *handle) noField(name string) error {
	return fmt.Errorf("%s has no field %q; %s", h.op.Name(), name, meant.Member(name, HandleFields(h.op)))
}

// failure returns the value of the field err.
func (h *handle) failure() (tengo.Object, error) {
	if h.result.state != scripts.EntryFailed {
		return tengo.UndefinedValue, nil
	}
	if !h.handled {
		h.handled = true
		at, _ := slices.BinarySearch(h.pass.handled, h.seq)
		h.pass.handled = slices.Insert(h.pass.handled, at, h.seq)
	}
	err := h.reason()
	if err := h.pass.meter.burnMemory(sizeMap + 3*sizeKey); err != nil {
		return nil, err
	}
	return &tengo.ImmutableMap{Value: map[string]tengo.Object{
		"code":      &tengo.String{Value: string(err.Code)},
		"message":   &tengo.String{Value: err.Message},
		"retryable": boolean(err.Retryable()),
	}}, nil
}

// failed returns the error that ends a script when it reads the result of a failed call.
func (h *handle) failed() error {
	err := *h.reason()
	what := h.op.Name()
	if h.name != "" {
		what += " " + h.name
	}
	err.Message = what + " failed: " + err.Message
	return &callFailure{seq: h.seq, err: &err}
}

// reason returns the error of a failed call. A journal that lacks this error is damaged.
func (h *handle) reason() *writ.Error {
	if h.result.err != nil {
		return h.result.err
	}
	return writ.Errorf(writ.CodeInternal, "the journal lacks the reason")
}

// suspension ends a pass that reads a missing result, or that has too many open calls.
type suspension struct{ seq int }

// suspend ends the pass. A wait is not returned as an error to the VM, because a VM that met an error cannot be reused.
// Instead the VM stops before its next instruction.
func (p *pass) suspend(wait *suspension) tengo.Object {
	p.suspended = wait
	p.vm.Abort()
	return tengo.UndefinedValue
}

func (s *suspension) Error() string { return fmt.Sprintf("waits for call %d", s.seq) }

// callFailure unwinds a script that reads the result of a failed call.
type callFailure struct {
	seq int
	err *writ.Error
}

func (f *callFailure) Error() string { return f.err.Message }
func (f *callFailure) Unwrap() error { return f.err }
