package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/internal/imageref"
	"writ/internal/meant"
)

// Unknown is a value that is not known yet, as in a plan or in a static check of a script. It fits every field.
type Unknown struct{}

// IsHandle reports whether v is a handle in the caller's representation, and of which kind ("" if unknown). A nil
// IsHandle recognises no handles.
type IsHandle func(v any) (kind writ.ResourceKind, ok bool)

// Check returns all problems of args, in the order of the schema and with unknown fields last. A field with a nil value
// counts as missing. Secrets have type Secret.
func (s Schema) Check(args map[string]any, isHandle IsHandle) []Problem {
	c := checker{isHandle: isHandle, meaning: true}
	c.object(s, args, nil)
	return c.problems
}

// CheckSent is Check for encoded arguments. Their secrets are maps.
func (s Schema) CheckSent(args map[string]any, isHandle IsHandle) []Problem {
	c := checker{isHandle: isHandle, sent: true, meaning: true}
	c.object(s, args, nil)
	return c.problems
}

// checker compares values with a schema and collects the problems.
type checker struct {
	isHandle IsHandle
	known    bool              // Unknown is a problem
	sent     bool              // secrets are in their encoded form
	secrets  map[Secret]string // known values of secrets
	revealed bool              // texts are the values of secrets
	meaning  bool              // useless values are problems, too
	problems []Problem
}

func (c *checker) add(at Path, reason Reason, format string, args ...any) {
	c.problems = append(c.problems,
		Problem{Path: slices.Clone(at), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) object(s Schema, args map[string]any, at Path) {
	var missing, unknown []string
	for i := range s {
		f := &s[i]
		v := args[f.Name]
		switch {
		case v != nil:
			before := len(c.problems)
			if c.value(f, v, append(at, f.Name)); len(c.problems) == before {
				c.beside(f, args, append(at, f.Name))
			}
		case f.Required:
			c.add(append(at, f.Name), MissingField, "field %q is missing%s", f.Name, inside(at))
			missing = append(missing, f.Name)
		}
	}
	for name := range args {
		if _, known := s.Field(name); !known {
			unknown = append(unknown, name)
		}
	}
	for _, name := range slices.Sorted(slices.Values(unknown)) {
		c.add(append(at, name), UnknownField, "no field %q%s", name, inside(at))
		p := &c.problems[len(c.problems)-1]
		if p.Hint = hints[plainName(name)]; p.Hint == "" {
			p.Suggestion = suggestion(name, s.Names())
		}
		if p.String() == p.Message && len(missing) == 1 && len(unknown) == 1 {
			p.Suggestion = missing[0]
		}
	}
}

func inside(at Path) string {
	if len(at) == 0 {
		return ""
	}
	return " in " + at.String()
}

func (c *checker) value(f *Field, v any, at Path) {
	if _, unknown := v.(Unknown); unknown && !c.known {
		return
	}
	v = long(f, v)
	if hidden, ok := hiddenOf(v, c.sent && f.Type == String); ok {
		c.secret(f, hidden, at)
		return
	}
	switch f.Type {
	case Handle:
		c.handle(f, v, at)
	case String:
		if text, ok := v.(string); ok {
			c.text(f, text, at)
			return
		}
		c.wrongType(f, v, at)
	case Bool:
		if _, ok := v.(bool); !ok {
			c.wrongType(f, v, at)
		}
	case Int:
		if n, ok := v.(int64); ok {
			c.bounds(f, n, "", at)
			return
		}
		c.wrongType(f, v, at)
	case Decimal:
		c.decimal(f, v, at)
	case List:
		list, ok := v.([]any)
		if !ok {
			c.wrongType(f, v, at)
			return
		}
		c.bounds(f, int64(len(list)), " elements", at)
		for i, e := range list {
			c.element(f.Elem, e, append(at, i))
		}
		c.list(f, list, at)
	case Map, Object:
		m, ok := v.(map[string]any)
		if _, isHandle := c.isHandle.kind(v); !ok || isHandle {
			c.wrongType(f, v, at)
			return
		}
		if f.Type == Object {
			before := len(c.problems)
			if c.object(f.Fields, m, at); len(c.problems) == before {
				c.whole(f, m, at)
			}
			return
		}
		c.bounds(f, int64(len(m)), " keys", at)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			c.text(f.Key, key, append(at, key))
			c.element(f.Elem, m[key], append(at, key))
		}
	}
}

// element checks a member of a list or map. nil is a problem there, not a missing value.
func (c *checker) element(f *Field, v any, at Path) {
	if v == nil {
		c.wrongType(f, v, at)
		return
	}
	c.value(f, v, at)
}

func (c *checker) text(f *Field, text string, at Path) {
	switch {
	case f.Hidden && !c.revealed:
		c.add(at, WrongType, "%s must be a secret, not a plain string", at)
	case strings.ContainsRune(text, 0):
		c.add(at, WrongValue, "%s must not contain a zero byte", at)
	case f.Enum != nil && !slices.Contains(f.Enum, text):
		c.add(at, WrongValue, "%s must be one of %s, not %q", at, strings.Join(f.Enum, ", "), short(text))
		c.problems[len(c.problems)-1].Suggestion = meant.Closest(text, f.Enum)
	case f.valid != nil && !f.valid(text):
		c.add(at, WrongValue, "%s must be %s, not %q", at, f.Form, short(text))
	default:
		if c.useful(f, text, at) {
			c.bounds(f, int64(len(text)), " bytes", at)
		}
	}
}

// decimal checks a number with limits. Sent arguments have no floats.
func (c *checker) decimal(f *Field, v any, at Path) {
	h, ok := HundredthsOf(v)
	_, text := v.(string)
	switch _, float := v.(float64); {
	case float && c.sent, !ok && !text && !float:
		if _, whole := v.(int64); !whole {
			c.wrongType(f, v, at)
			return
		}
	case ok && int64(h) >= *f.Min && int64(h) <= *f.Max:
		return
	}
	c.add(at, WrongValue, "%s must be a number from %s to %s in steps of 0.01, not %s", at, limitText(f, *f.Min),
		limitText(f, *f.Max), c.isHandle.quoted(v))
}

func (c *checker) bounds(f *Field, n int64, unit string, at Path) {
	tooLow, tooHigh := f.Min != nil && n < *f.Min, f.Max != nil && n > *f.Max
	verb := "be"
	if unit != "" {
		verb = "have"
	}
	switch {
	case !tooLow && !tooHigh:
	case f.Min != nil && f.Max != nil:
		c.add(at, WrongValue, "%s must %s %d to %d%s, not %d", at, verb, *f.Min, *f.Max, unit, n)
	case tooLow:
		c.add(at, WrongValue, "%s must %s at least %d%s, not %d", at, verb, *f.Min, unit, n)
	default:
		c.add(at, WrongValue, "%s must %s at most %d%s, not %d", at, verb, *f.Max, unit, n)
	}
}

func (c *checker) handle(f *Field, v any, at Path) {
	kind, ok := c.isHandle.kind(v)
	name, named := v.(string)
	switch {
	case ok && (kind == "" || slices.Contains(f.Kinds, kind)):
	case ok:
		c.add(at, WrongValue, "%s must be a handle to %s, not to a %s", at, kinds(f), kind)
	case named && f.Registry && imageref.Looks(name):
		if _, err := imageref.Parse(name); err != nil {
			c.add(at, WrongValue, "%s must be the name of an image, or a reference such as %s; %q is neither: %v", at,
				imageref.Example, short(name), err)
		}
	case named && f.ByName && !writ.ValidName(name):
		c.add(at, WrongValue, "%s must be %s, not %q", at, forms["name"].text, short(name))
	case named && f.ByName:
	default:
		c.wrongType(f, v, at)
	}
}

func (c *checker) wrongType(f *Field, v any, at Path) {
	if exact := exactly(f); exact != "" && !f.Hidden {
		c.add(at, WrongType, "%s must be %s; got %s", at, exact, c.isHandle.quoted(v))
		return
	}
	c.add(at, WrongType, "%s must be %s, not %s", at, wanted(f), c.isHandle.described(v))
}
