package interpreter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/d5/tengo/v2"
)

// jsonModule encodes keys in order, unlike Tengo's own module, and limits the nesting.
var jsonModule = map[string]member{
	"encode": pure(1, 1, jsonEncode),
	"decode": pure(1, 1, jsonDecode),
}

// jsonEncode returns bytes, as in Tengo. string(json.encode(v)) is a text.
func jsonEncode(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	w := jsonWriter{fuel: fuel}
	if err := w.value(args[0], 0); err != nil {
		return nil, err
	}
	if w.out.Len() > maxString {
		return nil, tengo.ErrBytesLimit
	}
	return &tengo.Bytes{Value: w.out.Bytes()}, fuel.burnMemory(2 * w.out.Len())
}

// jsonWriter writes a value as JSON, with limits, and maps in the order of their keys.
type jsonWriter struct {
	fuel *meter
	out  bytes.Buffer
}

func (w *jsonWriter) value(o tengo.Object, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if w.out.Len() > maxString {
		return tengo.ErrBytesLimit
	}
	if list, ok := elementsOf(o); ok {
		if err := w.fuel.burn(int64(len(list))); err != nil {
			return err
		}
		w.out.WriteByte('[')
		for i, e := range list {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.value(e, depth+1); err != nil {
				return err
			}
		}
		w.out.WriteByte(']')
		return nil
	}
	if m, ok := pairsOf(o); ok {
		keys, err := w.fuel.keys(m)
		if err != nil {
			return err
		}
		w.out.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.text(key); err != nil {
				return err
			}
			w.out.WriteByte(':')
			if err := w.value(m[key], depth+1); err != nil {
				return err
			}
		}
		w.out.WriteByte('}')
		return nil
	}
	return w.scalar(o)
}

func (w *jsonWriter) scalar(o tengo.Object) error {
	switch o := o.(type) {
	case *tengo.String:
		return w.text(o.Value)
	case *tengo.Char:
		return w.text(string(o.Value))
	case *tengo.Bytes:
		return w.text(string(o.Value))
	case *tengo.Int:
		w.out.WriteString(strconv.FormatInt(o.Value, 10))
	case *tengo.Float:
		text, err := json.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("json cannot write %s", o)
		}
		w.out.Write(text)
	case *tengo.Bool:
		w.out.WriteString(o.String())
	case *tengo.Undefined:
		w.out.WriteString("null")
	case *tengo.Time:
		text, err := json.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("json cannot write %s", o)
		}
		w.out.Write(text)
	case *handle:
		return fmt.Errorf("json cannot write %s, a handle; read one of its fields", o)
	case *secret:
		return o.misused()
	default:
		return fmt.Errorf("json cannot write a %s", o.TypeName())
	}
	return nil
}

func (w *jsonWriter) text(s string) error {
	if err := w.fuel.burn(int64(len(s)) / 16); err != nil {
		return err
	}
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1) // the newline
	return nil
}

// jsonDecode returns an error value, as in Tengo, if the text is not JSON. Whole numbers that fit into an int are ints,
// and all other numbers are floats.
func jsonDecode(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	text, ok := tengo.ToByteSlice(args[0])
	if !ok {
		return nil, mismatch("first", "bytes/string", args[0])
	}
	if err := fuel.burnMemory(40 * len(text)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more text after the value")
		}
	}
	if err != nil {
		return &tengo.Error{Value: &tengo.String{Value: "not JSON: " + err.Error()}}, nil
	}
	return fromJSON(v, 0)
}

func fromJSON(v any, depth int) (tengo.Object, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return &tengo.Int{Value: n}, nil
		}
		f, err := v.Float64()
		if err != nil {
			return &tengo.Error{Value: &tengo.String{Value: "not JSON: " + err.Error()}}, nil
		}
		return &tengo.Float{Value: f}, nil
	case []any:
		list := make([]tengo.Object, len(v))
		for i, e := range v {
			o, err := fromJSON(e, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = o
		}
		return &tengo.Array{Value: list}, nil
	case map[string]any:
		m := make(map[string]tengo.Object, len(v))
		for key, e := range v {
			o, err := fromJSON(e, depth+1)
			if err != nil {
				return nil, err
			}
			m[key] = o
		}
		return &tengo.Map{Value: m}, nil
	default:
		return objectOf(v)
	}
}
