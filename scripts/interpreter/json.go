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
	"encode": {least: 1, most: 1, call: jsonEncode},
	"decode": {least: 1, most: 1, call: jsonDecode},
}

// jsonEncode returns bytes, as in Tengo. string(json.encode(v)) is a text.
func jsonEncode(p *pass, args []tengo.Object) (tengo.Object, error) {
	var b bytes.Buffer
	if err := p.writeJSON(&b, args[0], 0); err != nil {
		return nil, err
	}
	if b.Len() > maxString {
		return nil, tengo.ErrBytesLimit
	}
	return &tengo.Bytes{Value: b.Bytes()}, p.burnMemory(2 * b.Len())
}

func (p *pass) writeJSON(b *bytes.Buffer, o tengo.Object, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if b.Len() > maxString {
		return tengo.ErrBytesLimit
	}
	if list, ok := elementsOf(o); ok {
		if err := p.burn(int64(len(list))); err != nil {
			return err
		}
		b.WriteByte('[')
		for i, e := range list {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := p.writeJSON(b, e, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	if m, ok := pairsOf(o); ok {
		keys, err := p.keys(m)
		if err != nil {
			return err
		}
		b.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := p.writeText(b, key); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := p.writeJSON(b, m[key], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	}
	return p.writeScalar(b, o)
}

func (p *pass) writeScalar(b *bytes.Buffer, o tengo.Object) error {
	switch o := o.(type) {
	case *tengo.String:
		return p.writeText(b, o.Value)
	case *tengo.Char:
		return p.writeText(b, string(o.Value))
	case *tengo.Bytes:
		return p.writeText(b, string(o.Value))
	case *tengo.Int:
		b.WriteString(strconv.FormatInt(o.Value, 10))
	case *tengo.Float:
		text, err := json.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("json cannot write %s", o)
		}
		b.Write(text)
	case *tengo.Bool:
		b.WriteString(o.String())
	case *tengo.Undefined:
		b.WriteString("null")
	case *tengo.Time:
		text, err := json.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("json cannot write %s", o)
		}
		b.Write(text)
	case *handle:
		return fmt.Errorf("json cannot write %s, a handle; read one of its fields", o)
	case *secret:
		return o.misused()
	default:
		return fmt.Errorf("json cannot write a %s", o.TypeName())
	}
	return nil
}

func (p *pass) writeText(b *bytes.Buffer, s string) error {
	if err := p.burn(int64(len(s)) / 16); err != nil {
		return err
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the newline
	return nil
}

// jsonDecode returns an error value, as in Tengo, if the text is not JSON. Whole numbers that fit are ints, all others
// floats.
func jsonDecode(p *pass, args []tengo.Object) (tengo.Object, error) {
	text, ok := tengo.ToByteSlice(args[0])
	if !ok {
		return nil, mismatch("first", "bytes/string", args[0])
	}
	if err := p.burnMemory(40 * len(text)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the value")
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
