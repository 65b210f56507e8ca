package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"writ"
)

// Secret is the name of a project's secret with its version, "db-password@3". It represents the secret wherever the
// value must not appear: in scripts, plans, journals, the arguments of jobs and the records of drivers. Its encoded
// form is the map {"secret": "db-password@3"}.
type Secret string

var secretPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$`)

// Name returns the name without the version.
func (s Secret) Name() string {
	name, _, _ := strings.Cut(string(s), "@")
	return name
}

// String returns the text shown instead of the value: "<secret db-password>".
func (s Secret) String() string { return "<secret " + s.Name() + ">" }

const secretKey = "secret"

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

// Text is a string argument that may be a secret. Printing, comparing and encoding it use the name of the secret; only
// Reveal returns the value. So a driver that writes its arguments to a record or log writes no secret.
type Text struct {
	plain  string
	secret *signedText // a pointer, so that %v of an enclosing value prints only an address
}

type signedText struct {
	name  Secret
	value *string // nil if only the name is known, as in records
}

// PlainText returns a text that is not a secret.
func PlainText(s string) Text { return Text{plain: s} }

// Secret returns the name of the secret; ok is false for a plain text.
func (t Text) Secret() (name Secret, ok bool) {
	if t.secret == nil {
		return "", false
	}
	return t.secret.name, true
}

// Reveal returns the value. Use it only to pass the value to the tool that needs it. It returns INTERNAL for a text
// from a record, which has only the name of the secret.
func (t Text) Reveal() (string, error) {
	switch {
	case t.secret == nil:
		return t.plain, nil
	case t.secret.value == nil:
		return "", writ.Errorf(writ.CodeInternal, "the value of %s is not available, only its name", t.secret.name)
	}
	return *t.secret.value, nil
}

// String returns the text, or the replacement for a secret.
func (t Text) String() string {
	if t.secret != nil {
		return t.secret.name.String()
	}
	return t.plain
}

// GoString prevents %#v from printing the value.
func (t Text) GoString() string { return fmt.Sprintf("%q", t.String()) }

// MarshalJSON encodes the text, or the encoded form of the secret.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.form()) }

// Equal reports whether two texts are the same plain text or the same version of the same secret. It does not compare
// the values of secrets.
func (t Text) Equal(other Text) bool {
	a, okA := t.Secret()
	b, okB := other.Secret()
	return okA == okB && a == b && t.plain == other.plain
}

// form returns the encoded form.
func (t Text) form() any {
	if t.secret != nil {
		return t.secret.name.form()
	}
	return t.plain
}

var textType = reflect.TypeFor[Text]()

// textOf decodes the encoded form. values may be nil.
func textOf(v any, values map[Secret]string) Text {
	name, ok := SecretOf(v)
	if !ok {
		plain, _ := v.(string)
		return Text{plain: plain}
	}
	t := Text{secret: &signedText{name: name}}
	if value, ok := values[name]; ok {
		t.secret.value = &value
	}
	return t
}

// NameSecrets returns a copy of args in which every encoded secret is a Secret, as Check expects. It reverses the
// effect of ReplaceHandles on secrets.
func (s Schema) NameSecrets(args map[string]any) map[string]any {
	named, _ := s.rewrite(args, func(f *Field, v any) (any, error) { // never fails
		if name, ok := SecretOf(v); ok && f.Type == String {
			return name, nil
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
		if name, ok := SecretOf(v); ok {
			all = append(all, name)
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

// secret checks a secret that is the value of a field.
func (c *checker) secret(f *Field, name Secret, at Path) {
	if !f.Secret {
		c.add(at, SecretMisplaced, "%s cannot be a secret", at)
		return
	}
	value, ok := c.secrets[name]
	if !ok {
		return // the value is unknown here
	}
	fits := checker{known: true, revealed: true}
	fits.text(f, value, at)
	if len(fits.problems) > 0 { // do not use their messages, which contain the value
		c.add(at, WrongValue, "the value of %s is invalid for %s%s", name, at, bounded(f))
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
