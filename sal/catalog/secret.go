package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
)

// Secret is the name of a project's secret with its version, "db-password@3". It represents the secret wherever the
// value must not appear: in scripts, plans, journals, the arguments of jobs and the records of drivers. Its encoded
// form is the map {"secret": "db-password@3"}.
type Secret string

var secretPattern = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$`)

// Name returns the name without the version.
func (s Secret) Name() string {
	name, _, _ := strings.Cut(string(s), "@")
	return name
}

// String returns the text shown instead of the value: "<secret db-password>".
func (s Secret) String() string { return "<secret " + s.Name() + ">" }

const (
	secretKey = "secret"
	partsKey  = "parts"
)

// form returns the encoded form.
func (s Secret) form() map[string]any { return map[string]any{secretKey: string(s)} }

// SecretOf decodes the encoded form of a secret.
func SecretOf(v any) (Secret, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", false
	}
	name, ok := m[secretKey].(string)
	return Secret(name), ok && secretPattern.MatchString(name)
}

// Composed is a text with secrets in it, the result of run.text: its parts, each a string or a Secret. Like a Secret,
// it occurs only in arguments. Its encoded form is the map {"parts": ["user:", {"secret": "db-password@3"}]}.
type Composed []any

// MaxParts limits the parts of a Composed.
const MaxParts = 200

// String returns the text with names in place of secrets.
func (c Composed) String() string {
	var b strings.Builder
	for _, part := range c {
		fmt.Fprint(&b, part)
	}
	return b.String()
}

// form returns the encoded form.
func (c Composed) form() map[string]any {
	parts := make([]any, len(c))
	for i, part := range c {
		if parts[i] = part; c.secret(i) != "" {
			parts[i] = c.secret(i).form()
		}
	}
	return map[string]any{partsKey: parts}
}

// secret returns the secret that is part i, or "".
func (c Composed) secret(i int) Secret {
	name, _ := c[i].(Secret)
	return name
}

// ComposedOf decodes the encoded form of a Composed. ok is false if no part is a secret.
func ComposedOf(v any) (Composed, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return nil, false
	}
	parts, ok := m[partsKey].([]any)
	if !ok || len(parts) > MaxParts {
		return nil, false
	}
	c, hides := make(Composed, len(parts)), false
	for i, part := range parts {
		if name, is := SecretOf(part); is {
			c[i], hides = name, true
			continue
		}
		text, is := part.(string)
		if !is || strings.ContainsRune(text, 0) {
			return nil, false
		}
		c[i] = text
	}
	return c, hides
}

// hiddenOf returns v as a Composed if v is a text with secrets. This is a Secret, a Composed or, if sent is set, the
// encoded form of either.
func hiddenOf(v any, sent bool) (Composed, bool) {
	switch v := v.(type) {
	case Secret:
		return Composed{v}, true
	case Composed:
		return v, true
	}
	if name, is := SecretOf(v); is && sent {
		return Composed{name}, true
	}
	if c, is := ComposedOf(v); is && sent {
		return c, true
	}
	return nil, false
}

// isTextForm reports whether a map is the encoded form of a Text.
func isTextForm(m map[string]any) bool {
	_, is := hiddenOf(m, true)
	return is
}

// Text is a string argument that may be a secret, or have secrets in it. Printing, comparing and encoding it use the
// names of the secrets; only Reveal and Secrets return values. So a driver that writes its arguments to a record or log
// writes no secret.
type Text struct {
	plain  string
	hidden *hiddenText // a pointer, so that %v of an enclosing value prints only an address
}

type hiddenText struct {
	parts  Composed
	values map[Secret]string // nil if only the names are known, as in records
}

// PlainText returns a text that is not a secret.
func PlainText(s string) Text { return Text{plain: s} }

// Secret returns the name of the secret if the text is exactly one secret. ok is false for any other text.
func (t Text) Secret() (name Secret, ok bool) {
	if t.hidden == nil || len(t.hidden.parts) != 1 {
		return "", false
	}
	return t.hidden.parts.secret(0), true
}

// HasSecret reports whether the text contains a secret.
func (t Text) HasSecret() bool { return t.hidden != nil }

// IsComposed reports whether the text contains a secret together with other text.
func (t Text) IsComposed() bool { return t.hidden != nil && len(t.hidden.parts) != 1 }

// Len returns the length of the value in bytes. In a text from a record, whose values are unknown, secrets count as 0
// bytes.
func (t Text) Len() (n int) {
	if t.hidden == nil {
		return len(t.plain)
	}
	for i, part := range t.hidden.parts {
		if name := t.hidden.parts.secret(i); name != "" {
			n += len(t.hidden.values[name])
		} else if text, ok := part.(string); ok {
			n += len(text)
		}
	}
	return n
}

// Reveal returns the value. Use it only to pass the value to the tool that needs it. It returns INTERNAL for a text
// with secrets from a record, which contains only their names. It returns ARGUMENTS_INVALID for a composed text of more
// than MaxFile bytes.
func (t Text) Reveal() (string, error) {
	if t.hidden == nil {
		return t.plain, nil
	}
	values, err := t.Secrets()
	if err != nil {
		return "", err
	}
	if n := t.Len(); t.IsComposed() && n > MaxFile {
		return "", writ.Errorf(writ.CodeArgumentsInvalid, "the text %.60q has %d bytes with its secrets", t.String(), n).
			WithHint("a text with secrets can have %d bytes", MaxFile)
	}
	var b strings.Builder
	for i, part := range t.hidden.parts {
		if name := t.hidden.parts.secret(i); name != "" {
			b.WriteString(values[name])
		} else {
			fmt.Fprint(&b, part)
		}
	}
	return b.String(), nil
}

// Secrets returns the values of the secrets in the text. It returns INTERNAL for a text with secrets from a record.
func (t Text) Secrets() (map[Secret]string, error) {
	if t.hidden == nil {
		return nil, nil
	}
	values := make(map[Secret]string, len(t.hidden.parts))
	for i := range t.hidden.parts {
		name := t.hidden.parts.secret(i)
		value, known := t.hidden.values[name]
		if name != "" && !known {
			return nil, writ.Errorf(writ.CodeInternal, "the value of %s is not available, only its name", name)
		}
		if name != "" {
			values[name] = value
		}
	}
	return values, nil
}

// String returns the text with names in place of secrets.
func (t Text) String() string {
	if t.hidden != nil {
		return t.hidden.parts.String()
	}
	return t.plain
}

// GoString prevents %#v from printing the value.
func (t Text) GoString() string { return fmt.Sprintf("%q", t.String()) }

// MarshalJSON encodes the text, or the encoded form of its secrets.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.form()) }

// Equal reports whether two texts are the same, with the same versions of secrets. It does not compare the values of
// secrets.
func (t Text) Equal(other Text) bool {
	if t.hidden == nil || other.hidden == nil {
		return t.hidden == other.hidden && t.plain == other.plain
	}
	return slices.Equal(t.hidden.parts, other.hidden.parts)
}

// form returns the encoded form.
func (t Text) form() any {
	switch name, single := t.Secret(); {
	case single:
		return name.form()
	case t.hidden != nil:
		return t.hidden.parts.form()
	}
	return t.plain
}

var textType = reflect.TypeFor[Text]()

// textOf decodes the encoded form. values may be nil.
func textOf(v any, values map[Secret]string) Text {
	parts, ok := hiddenOf(v, true)
	if !ok {
		plain, _ := v.(string)
		return Text{plain: plain}
	}
	return Text{hidden: &hiddenText{parts, values}}
}

// NameSecrets returns a copy of args with a Secret or a Composed in place of every encoded secret, as Check expects. It
// reverses the effect of ReplaceHandles on secrets.
func (s Schema) NameSecrets(args map[string]any) map[string]any {
	named, _ := s.rewrite(args, func(f *Field, v any) (any, error) { // never fails
		if f.Type != String {
			return v, nil
		}
		if name, ok := SecretOf(v); ok {
			return name, nil
		}
		if c, ok := ComposedOf(v); ok {
			return c, nil
		}
		return v, nil
	})
	return named
}

// Secrets returns the sorted encoded secrets in args, without duplicates.
func (s Schema) Secrets(args map[string]any) []Secret {
	if !slices.ContainsFunc(s, Field.takesSecrets) {
		return nil
	}
	var all []Secret
	_, _ = s.rewrite(args, func(_ *Field, v any) (any, error) {
		if parts, ok := hiddenOf(v, true); ok {
			for i := range parts {
				if name := parts.secret(i); name != "" {
					all = append(all, name)
				}
			}
		}
		return v, nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// takesSecrets reports whether a secret may be in a value of the field.
func (f Field) takesSecrets() bool {
	return f.Secret || f.Elem != nil && f.Elem.takesSecrets() || slices.ContainsFunc(f.Fields, Field.takesSecrets)
}

// secret checks a text with secrets that is the value of a field.
func (c *checker) secret(f *Field, hidden Composed, at Path) {
	if !f.Secret {
		c.add(at, SecretMisplaced, "%s cannot be a secret", at)
		return
	}
	text := Text{hidden: &hiddenText{hidden, c.secrets}}
	value, err := text.Reveal()
	switch {
	case writ.CodeOf(err) == writ.CodeInternal:
		return // a value is unknown here
	case err != nil:
		if f.Max != nil { // a field without a limit has its own check
			c.add(at, WrongValue, "%s: %s", at, writ.AsError(err).Message)
		}
		return
	}
	fits := checker{known: true, revealed: true}
	fits.text(f, value, at)
	if len(fits.problems) > 0 { // do not use their messages, which contain the value
		c.add(at, WrongValue, "the value of %s is invalid for %s%s", hidden, at, bounded(f))
	}
}

// bounded describes the permitted values of a text.
func bounded(f *Field) string {
	switch {
	case f.Form != "":
		return ": it must be " + f.Form
	case f.Min != nil && f.Max != nil:
		return fmt.Sprintf(": it must have %d to %d bytes, none of them zero", *f.Min, *f.Max)
	case f.Max != nil:
		return fmt.Sprintf(": it must have at most %d bytes, none of them zero", *f.Max)
	default:
		return ": it has a zero byte"
	}
}
