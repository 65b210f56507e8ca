package interpreter

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
)

// encoder writes the arguments of a call as deterministic CBOR, equal to the encoding of package internal/cbor. It
// encodes the objects of a script directly, because every pass encodes every call of its run. A handle is {"ref": seq}
// and a secret {"secret": "name@version"}, or {"parts": […]} with texts and secrets. Keys whose value is undefined
// are omitted.
type encoder struct {
	fuel    *meter // everything that is read burns fuel, even if it is not written
	plain   bool   // handles and secrets are errors
	buf     []byte
	unknown bool // a part of the value is unknown
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

// misfit reports an object that is not a value, and its path.
type misfit struct{ path, why string }

func (m *misfit) Error() string { return m.path + " " + m.why }

// within prepends a step to the path of a misfit.
func within(step string, err error) error {
	if m, ok := err.(*misfit); ok {
		return &misfit{path: step + m.path, why: m.why}
	}
	return err
}

var errArguments = writ.Errorf(writ.CodeScriptLimit, "the arguments of a call may have %d bytes", scripts.MaxArguments)

var errNotText = &misfit{why: "is not valid UTF-8"}

// object encodes o.
func (e *encoder) object(o tengo.Object, depth int) error {
	if depth > writ.MaxValueDepth {
		return &misfit{why: fmt.Sprintf("is nested deeper than %d, or contains itself", writ.MaxValueDepth)}
	}
	if len(e.buf) > scripts.MaxArguments {
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
		return e.secret(o)
	default:
		return &misfit{why: fmt.Sprintf("is a %s; only string, bool, int, list, map and handle are possible", o.TypeName())}
	}
	return nil
}

// secret encodes a secret: {"secret": "name@version"}, or {"parts": […]} for a text with secrets.
func (e *encoder) secret(s *secret) error {
	if err := e.fuel.burn(2 * int64(len(s.parts))); err != nil {
		return err
	}
	single := len(s.parts) == 1
	if !single {
		e.head(majorMap, 1)
		e.text("parts")
		e.head(majorList, uint64(len(s.parts)))
	}
	for _, part := range s.parts {
		switch part := part.(type) {
		case catalog.Secret:
			e.head(majorMap, 1)
			e.text("secret")
			e.text(string(part))
		case string:
			if !utf8.ValidString(part) {
				return errNotText
			}
			e.text(part)
		}
	}
	return nil
}

func (e *encoder) reference(h *handle) {
	e.head(majorMap, 1)
	e.text(scripts.RefKey)
	e.integer(int64(h.seq))
}

// later encodes an unknown value of a plan: {"(known after)": [seq, …]}.
func (e *encoder) later(u *unknown) {
	e.unknown = true
	e.head(majorMap, 1)
	e.text(scripts.KnownAfterKey)
	e.head(majorList, uint64(len(u.after)))
	for _, seq := range u.after {
		e.integer(int64(seq))
	}
}

func (e *encoder) pairs(m map[string]tengo.Object, depth int) error {
	if err := e.fuel.burn(2 * int64(len(m))); err != nil {
		return err
	}
	keys := make([]string, 0, len(m))
	for key, v := range m {
		if v != tengo.UndefinedValue {
			keys = append(keys, key)
		}
	}
	// Deterministic CBOR sorts keys by their encodings, which begin with the length.
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
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

// valueOf converts an object of a script to a plain Go value. Handles and unknown values are returned unchanged; a
// secret becomes a catalog.Secret or a catalog.Composed. The caller has already encoded o, so o is a valid value.
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
		return o.value()
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

// objectOf converts a plain Go value to an object of a script. The object is new each time, because the script may
// change it.
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

// rewritten returns a copy of a value. If replace returns true for a part, its value replaces the part.
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
