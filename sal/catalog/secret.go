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

// Secret names a secret of a project with its version, "db-password@3", wherever its value is not and must not be: in scripts, plans,
// journals, the arguments of jobs and the records of drivers. Among values that travel it is the map {"secret": "db-password@3"}.
type Secret string

var secretPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$`)

// Name returns the name without the version.
func (s Secret) Name() string {
	name, _, _ := strings.Cut(string(s), "@")
	return name
}

// String returns what is shown instead of the value, "<secret db-password>".
func (s Secret) String() string { return "<secret " + s.Name() + ">" }

const secretKey = "secret"

// form is the secret among values that travel.
func (s Secret) form() map[string]any { return map[string]any{secretKey: string(s)} }

// SecretOf reads a secret among values that travel.
func SecretOf(v any) (Secret, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", false
	}
	name, ok := m[secretKey].(string)
	return Secret(name), ok && secretPattern.MatchString(name)
}

// Text is a string among the arguments of an operation that may be a secret: whatever prints, compares, encodes or records it gets the
// secret's name, and only Reveal the value. So a driver that writes its arguments into a record or a log writes no secret.
type Text struct {
	plain  string
	secret *signedText // behind a pointer, which is all that a careless %v of what is around it prints
}

type signedText struct {
	name  Secret
	value *string // nil where only the name is known, as in records
}

// PlainText returns a text that is no secret.
func PlainText(s string) Text { return Text{plain: s} }

// Secret returns which secret the text is; ok is false if it is none.
func (t Text) Secret() (name Secret, ok bool) {
	if t.secret == nil {
		return "", false
	}
	return t.secret.name, true
}

// Reveal returns the value. It is for handing it to the tool that needs it and for nothing else. The error (INTERNAL) is that of a text
// that comes from a record, where only the name of the secret is.
func (t Text) Reveal() (string, error) {
	switch {
	case t.secret == nil:
		return t.plain, nil
	case t.secret.value == nil:
		return "", writ.Errorf(writ.CodeInternal, "the value of %s is not here, only its name", t.secret.name)
	}
	return *t.secret.value, nil
}

// String returns the text, or what stands for the secret.
func (t Text) String() string {
	if t.secret != nil {
		return t.secret.name.String()
	}
	return t.plain
}

// GoString is String, so that %#v shows no more.
func (t Text) GoString() string { return fmt.Sprintf("%q", t.String()) }

// MarshalJSON writes the text, or the form of the secret.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.form()) }

// Equal reports whether two texts are the same text or the same version of the same secret; values are not looked at.
func (t Text) Equal(other Text) bool {
	a, okA := t.Secret()
	b, okB := other.Secret()
	return okA == okB && a == b && t.plain == other.plain
}

// form is the text among values that travel.
func (t Text) form() any {
	if t.secret != nil {
		return t.secret.name.form()
	}
	return t.plain
}

var textType = reflect.TypeFor[Text]()

// textOf reads the form. Values may be nil.
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

// NameSecrets returns a copy of args in which every secret that has the form in which it travels is a Secret, as Check knows it: the reverse
// of what ReplaceHandles does to secrets.
func (s Schema) NameSecrets(args map[string]any) map[string]any {
	named, _ := s.rewrite(args, func(f *Field, v any) (any, error) { // cannot fail: this does not
		if name, ok := SecretOf(v); ok && f.Type == String {
			return name, nil
		}
		return v, nil
	})
	return named
}

// Secrets returns the secrets that args name, in their form, each once and sorted.
func (s Schema) Secrets(args map[string]any) []Secret {
	if !s.takesSecrets() {
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

func (s Schema) takesSecrets() bool { return slices.ContainsFunc(s, Field.takesSecrets) }

func (f Field) takesSecrets() bool {
	return f.Secret || f.Elem != nil && f.Elem.takesSecrets() || f.Fields.takesSecrets()
}

// secret checks a secret that is given for a field.
func (c *checker) secret(f *Field, name Secret, at Path) {
	if !f.Secret {
		c.add(at, SecretMisplaced, "%s cannot be a secret", at)
		return
	}
	value, ok := c.secrets[name]
	if !ok {
		return // nobody here knows it
	}
	fits := checker{known: true, revealed: true}
	fits.text(f, value, at)
	if len(fits.problems) > 0 { // whose messages tell of the value
		c.add(at, WrongValue, "the value of %s is not possible for %s%s", name, at, bounded(f))
	}
}

// bounded says what a text must be like.
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
