package interpreter

import (
	"errors"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"

	"writ/scripts"
)

// Tengo prints, compares and copies values by unbounded recursion, and a value can contain itself: a := [0]; a[0] = a.
// The functions here have limits, and print maps in the order of their keys.

var errDepth = errors.New("the value is nested too deeply, or contains itself")

// scalar reports whether o contains no other values.
func scalar(o tengo.Object) bool {
	switch o.(type) {
	case *tengo.Int, *tengo.String, *tengo.Bool, *tengo.Float, *tengo.Char, *tengo.Bytes, *tengo.Time, *tengo.Undefined:
		return true
	default:
		return false
	}
}

// text returns o as "" + o would: a string unchanged, all other values printed. A secret is an error, because the
// script wants its value in the text and would get its name.
func (p *pass) text(o tengo.Object) (string, error) {
	if s, ok := o.(*tengo.String); ok {
		return s.Value, nil
	}
	var b strings.Builder
	if err := p.print(&b, o, 0); err != nil {
		return "", err
	}
	if b.Len() > maxString {
		return "", tengo.ErrStringLimit
	}
	return b.String(), p.burnMemory(b.Len())
}

// printableText returns the text of o for people. It shows secrets by name, and unknown values by the calls that they
// wait for.
func (p *pass) printableText(o tengo.Object) (string, error) {
	p.showing = true
	defer func() { p.showing = false }()
	return p.text(o)
}

func (p *pass) print(b *strings.Builder, o tengo.Object, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if b.Len() > maxString {
		return tengo.ErrStringLimit
	}
	if list, ok := elementsOf(o); ok {
		return p.printAll(b, "[", "]", len(list), func(i int) error { return p.print(b, list[i], depth+1) })
	}
	if m, ok := pairsOf(o); ok {
		keys, err := p.keys(m)
		if err != nil {
			return err
		}
		return p.printAll(b, "{", "}", len(keys), func(i int) error {
			b.WriteString(keys[i])
			b.WriteString(": ")
			return p.print(b, m[keys[i]], depth+1)
		})
	}
	switch o := o.(type) {
	case *tengo.Int: // the most frequent type
		b.WriteString(strconv.FormatInt(o.Value, 10))
		return nil
	case *tengo.Error:
		b.WriteString("error")
		if o.Value == nil {
			return nil
		}
		b.WriteString(": ")
		return p.print(b, o.Value, depth+1)
	case *unknown:
		if !p.showing {
			panic(o.here("a text")) // the script was about to get this text
		}
		b.WriteString(scripts.KnownAfterText(p.plan.calls, o.after))
		return nil
	case *secret:
		if !p.showing {
			return o.misused()
		}
		b.WriteString(o.String())
		return nil
	default:
		b.WriteString(o.String())
		return nil
	}
}

func (p *pass) printAll(b *strings.Builder, open, end string, n int, each func(i int) error) error {
	if err := p.burn(int64(n)); err != nil {
		return err
	}
	b.WriteString(open)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := each(i); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

// equal compares as == does.
func (p *pass) equal(x, y tengo.Object, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errDepth
	}
	if list, ok := elementsOf(x); ok {
		other, ok := elementsOf(y)
		if !ok || len(list) != len(other) {
			return false, nil
		}
		if err := p.burn(int64(len(list))); err != nil {
			return false, err
		}
		for i := range list {
			if same, err := p.equal(list[i], other[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if m, ok := pairsOf(x); ok {
		other, ok := pairsOf(y)
		if !ok || len(m) != len(other) {
			return false, nil
		}
		keys, err := p.keys(m) // in order: the first failure and the fuel burned must be deterministic
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			value, ok := other[key]
			if !ok {
				return false, nil
			}
			if same, err := p.equal(m[key], value, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if err := p.weigh(x, 64); err != nil {
		return false, err
	}
	return x.Equals(y), nil
}

// copied returns a deep copy, as copy() does: its lists and maps can be changed.
func (p *pass) copied(o tengo.Object, depth int) (tengo.Object, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if list, ok := elementsOf(o); ok {
		if err := p.burnMemory(2*sizeObject + 3*sizeObject*len(list)); err != nil {
			return nil, err
		}
		to := make([]tengo.Object, len(list))
		for i, e := range list {
			c, err := p.copied(e, depth+1)
			if err != nil {
				return nil, err
			}
			to[i] = c
		}
		return &tengo.Array{Value: to}, nil
	}
	if m, ok := pairsOf(o); ok {
		if err := p.burnMemory(sizeMap + sizeKey*len(m)); err != nil {
			return nil, err
		}
		keys, err := p.keys(m)
		if err != nil {
			return nil, err
		}
		to := make(map[string]tengo.Object, len(m))
		for _, key := range keys {
			c, err := p.copied(m[key], depth+1)
			if err != nil {
				return nil, err
			}
			to[key] = c
		}
		return &tengo.Map{Value: to}, nil
	}
	switch o := o.(type) {
	case *tengo.Error:
		if o.Value == nil {
			return o, nil
		}
		c, err := p.copied(o.Value, depth+1)
		return &tengo.Error{Value: c}, err
	case *tengo.Bytes:
		return o.Copy(), p.burnMemory(len(o.Value))
	case *tengo.CompiledFunction:
		return o, p.burn(1) // a copy would lose its source positions
	default:
		return o.Copy(), nil
	}
}

func builtinCopy(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) != 1 {
		return nil, tengo.ErrWrongNumArguments
	}
	return p.copied(args[0], 0)
}
