package scripts

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/d5/tengo/v2"

	"writ"
)

// encoder writes the arguments of a call as deterministic CBOR, as package internal/cbor would, straight from the values of a script:
// every call of a run is encoded in every pass. A handle is {"ref": seq}, a secret {"secret": "name@version"},
// a key whose value is undefined is left out.
type encoder struct {
	pass    *pass // burns for what is read, be it written or not
	plain   bool  // a handle is no value, and neither is a secret
	buf     []byte
	unknown bool // something of it is not known
}

// The major types of CBOR that values use.
const (
	majorUnsigned = 0 << 5
	majorNegative = 1 << 5
	majorText     = 3 << 5
	majorList     = 4 << 5
	majorMap      = 5 << 5
	simpleFalse   = 0xf4
	simpleTrue    = 0xf5
	simpleNull    = 0xf6
)

func (e *encoder) head(major byte, n uint64) {
	switch {
	case n < 24:
		e.buf = append(e.buf, major|byte(n))
	case n < 1<<8:
		e.buf = append(e.buf, major|24, byte(n))
	case n < 1<<16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, major|25), uint16(n))
	case n < 1<<32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, major|26), uint32(n))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, major|27), n)
	}
}

func (e *encoder) text(s string) {
	e.head(majorText, uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) integer(n int64) {
	if n < 0 {
		e.head(majorNegative, uint64(-(n + 1)))
		return
	}
	e.head(majorUnsigned, uint64(n))
}

// misfit is an object that is not a value, and the way to it.
type misfit struct{ path, why string }

func (m *misfit) Error() string { return m.path + " " + m.why }

// within adds where something is to the way to it.
func within(step string, err error) error {
	if m, ok := err.(*misfit); ok {
		return &misfit{path: step + m.path, why: m.why}
	}
	return err
}

var errArguments = writ.Errorf(writ.CodeScriptLimit, "the arguments of a call may have %d bytes", MaxArguments)

var errNotText = &misfit{why: "is not valid UTF-8"}

// object writes o.
func (e *encoder) object(o tengo.Object, depth int) error {
	if depth > writ.MaxValueDepth {
		return &misfit{why: fmt.Sprintf("is nested deeper than %d, or contains itself", writ.MaxValueDepth)}
	}
	if len(e.buf) > MaxArguments {
		return errArguments
	}
	if list, ok := elementsOf(o); ok {
		e.head(majorList, uint64(len(list)))
		for i, v := range list {
			if err := e.object(v, depth+1); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
		return nil
	}
	if m, ok := pairsOf(o); ok {
		return e.pairs(m, depth)
	}
	switch o := o.(type) {
	case *tengo.String:
		if !utf8.ValidString(o.Value) {
			return errNotText
		}
		e.text(o.Value)
	case *tengo.Int:
		e.integer(o.Value)
	case *tengo.Bool:
		e.buf = append(e.buf, simpleTrue)
		if o.IsFalsy() {
			e.buf[len(e.buf)-1] = simpleFalse
		}
	case *tengo.Undefined:
		e.buf = append(e.buf, simpleNull)
	case *handle:
		if e.plain {
			return &misfit{why: fmt.Sprintf("is %s, a handle; read one of its fields", o)}
		}
		e.reference(o)
	case *unknown:
		e.later(o)
	case *secret:
		if e.plain {
			return &misfit{why: "is a secret: " + o.misused().Error()}
		}
		e.head(majorMap, 1)
		e.text("secret")
		e.text(string(o.name))
	default:
		return &misfit{why: fmt.Sprintf("is a %s; only string, bool, int, list, map and handle are possible", o.TypeName())}
	}
	return nil
}

func (e *encoder) reference(h *handle) {
	e.head(majorMap, 1)
	e.text(refKey)
	e.integer(int64(h.seq))
}

// later writes the place of a value that a plan does not know: {"(known after)": [seq, …]}.
func (e *encoder) later(u *unknown) {
	e.unknown = true
	e.head(majorMap, 1)
	e.text(knownAfter)
	e.head(majorList, uint64(len(u.after)))
	for _, seq := range u.after {
		e.integer(int64(seq))
	}
}

func (e *encoder) pairs(m map[string]tengo.Object, depth int) error {
	if err := e.pass.burn(2 * int64(len(m))); err != nil {
		return err
	}
	keys := make([]string, 0, len(m))
	for key, v := range m {
		if v != tengo.UndefinedValue {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }) // the order of their encodings
	e.head(majorMap, uint64(len(keys)))
	for _, key := range keys {
		if !utf8.ValidString(key) {
			return errNotText
		}
		e.text(key)
		if err := e.object(m[key], depth+1); err != nil {
			return within("."+key, err)
		}
	}
	return nil
}

// valueOf returns a value of a script as one of the system. Handles stay handles, and what is not known stays so; a secret is a
// catalog.Secret. O was encoded before and is known to be possible.
func valueOf(o tengo.Object) any {
	if list, ok := elementsOf(o); ok {
		values := make([]any, len(list))
		for i, e := range list {
			values[i] = valueOf(e)
		}
		return values
	}
	if m, ok := pairsOf(o); ok {
		return valuesOf(m)
	}
	switch o := o.(type) {
	case *tengo.String:
		return o.Value
	case *tengo.Int:
		return o.Value
	case *tengo.Bool:
		return !o.IsFalsy()
	case *handle:
		return o
	case *unknown:
		return o
	case *secret:
		return o.name
	default:
		return nil
	}
}

func valuesOf(m map[string]tengo.Object) map[string]any {
	values := make(map[string]any, len(m))
	for key, v := range m {
		if v != tengo.UndefinedValue {
			values[key] = valueOf(v)
		}
	}
	return values
}

// objectOf returns a value of the system as one of a script, fresh each time: a script may change what it got.
func objectOf(v any) (tengo.Object, error) {
	switch v := v.(type) {
	case nil:
		return tengo.UndefinedValue, nil
	case string:
		return &tengo.String{Value: v}, nil
	case bool:
		return boolean(v), nil
	case int64:
		return &tengo.Int{Value: v}, nil
	case []any:
		list := make([]tengo.Object, len(v))
		for i := range v {
			o, err := objectOf(v[i])
			if err != nil {
				return nil, err
			}
			list[i] = o
		}
		return &tengo.Array{Value: list}, nil
	case map[string]any:
		m := make(map[string]tengo.Object, len(v))
		for key := range v {
			o, err := objectOf(v[key])
			if err != nil {
				return nil, err
			}
			m[key] = o
		}
		return &tengo.Map{Value: m}, nil
	default:
		return nil, writ.Errorf(writ.CodeInternal, "a %T is not a value", v)
	}
}

// rewritten returns a copy of a value in which every part for which replace reports true is what it returns.
func rewritten(v any, replace func(part any) (any, bool)) any {
	if other, ok := replace(v); ok {
		return other
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = rewritten(e, replace)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			m[key] = rewritten(e, replace)
		}
		return m
	default:
		return v
	}
}

// sizeOf is about how many bytes v takes when it is encoded, and never less.
func sizeOf(v any) int {
	const head, number = 5, 9
	switch v := v.(type) {
	case string:
		return head + len(v)
	case int64:
		return number
	case *unknown:
		return head + number*len(v.after)
	case []any:
		size := head
		for _, e := range v {
			size += sizeOf(e)
		}
		return size
	case map[string]any:
		size := head
		for key, e := range v {
			size += head + len(key) + sizeOf(e)
		}
		return size
	default:
		return 1
	}
}
