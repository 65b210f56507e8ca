package main

import (
	"fmt"
	"strings"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/sal/catalog"
	"writ/scripts"
)

// operationText is what the catalogue says of an operation.
type operationText struct {
	Operation   string      `json:"operation"`
	Help        string      `json:"help"`
	Call        string      `json:"call"`
	Facts       []string    `json:"facts"`
	Destructive bool        `json:"destructive"`
	Risk        string      `json:"risk,omitempty"` // which data can get lost
	Arguments   []fieldText `json:"arguments"`
	Options     []string    `json:"options"`
	Result      []fieldText `json:"result"`
	Errors      []writ.Code `json:"errors"` // of its own, then those of every call
	Example     string      `json:"example"`

	own int // how many of the errors are its own
}

// fieldText is what the catalogue says of a field of arguments or of a result. Fields of a map in a list follow it, as `volumes[].path`.
type fieldText struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Required  bool   `json:"required"` // of a result: it is always there
	Default   any    `json:"default,omitempty"`
	Limits    string `json:"limits,omitempty"`
	CanChange bool   `json:"can_change"` // by a later call with the same name
	Help      string `json:"help"`
}

// everyOperation names all operations, also those that no node carries out.
func everyOperation() []string { return namesOf(catalog.Operations()) }

func namesOf(ops []*catalog.Operation) []string {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = op.Name()
	}
	return names
}

func explainOperation(op *catalog.Operation) operationText {
	own := op.Errors()
	t := operationText{
		Operation: op.Name(), Help: op.Help, Call: op.Call(), Facts: op.Facts(), Destructive: op.Destructive, Risk: op.Risk,
		Arguments: fieldTexts(op.Args, ""), Options: []string{}, Result: fieldTexts(op.Result, ""), Errors: append(own, catalog.CommonErrors()...), Example: op.Example(),
		own: len(own),
	}
	if op.Effect != catalog.Find {
		t.Options = scripts.Options().Names()
	}
	for i := range t.Arguments {
		t.Arguments[i].CanChange = t.Arguments[i].CanChange && op.Effect == catalog.Make
	}
	return t
}

func fieldTexts(s catalog.Schema, under string) []fieldText {
	all := []fieldText{}
	for i := range s {
		f := &s[i]
		all = append(all, fieldText{
			Name: under + f.Name, Type: f.Takes(), Required: f.Required, Default: f.Default, CanChange: f.Mutable, Help: f.Help,
			Limits: strings.ReplaceAll(f.Limits(), "`", ""), // which mark what may be written in documents
		})
		if f.Type == catalog.List && f.Elem.Type == catalog.Object {
			all = append(all, fieldTexts(f.Elem.Fields, under+f.Name+"[].")...)
		}
	}
	return all
}

func (t operationText) view() terminal.View {
	return terminal.View{Data: t, Names: []string{t.Operation}, Text: func(bool) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n\n  %s\n\nIt %s.\n", t.Operation, t.Help, t.Call, strings.Join(t.Facts, "; "))
		if t.Destructive {
			b.WriteString("It is destructive: the signature must name what it may destroy, with --destructive.\n")
		}
		if t.Risk != "" {
			fmt.Fprintf(&b, "What can get lost: %s\n", t.Risk)
		}
		writeFieldTexts(&b, "Arguments", t.Arguments, fieldText.argument)
		if len(t.Options) > 0 {
			fmt.Fprintf(&b, "\nOptions: %s (docs/operations.md#options)\n", strings.Join(t.Options, ", "))
		}
		writeFieldTexts(&b, "Result", t.Result, fieldText.result)
		b.WriteString("\nErrors:\n")
		if t.own > 0 {
			fmt.Fprintf(&b, "  of its own     %s\n", codeList(t.Errors[:t.own]))
		}
		fmt.Fprintf(&b, "  of every call  %s\n\nExample:\n\n%s\n", codeList(t.Errors[t.own:]), indented(strings.TrimSpace(t.Example)))
		return b.String()
	}}
}

func writeFieldTexts(b *strings.Builder, title string, fields []fieldText, about func(fieldText) string) {
	if len(fields) == 0 {
		return
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(f.Name))
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, f := range fields {
		fmt.Fprintf(b, "  %-*s  %s\n  %*s  %s\n", width, f.Name, about(f), width, "", f.Help)
	}
}

// argument says what a field takes: "int, required, 1 to 256, can change".
func (f fieldText) argument() string {
	words := []string{f.Type}
	switch {
	case f.Required:
		words = append(words, "required")
	case f.Default != nil:
		words = append(words, fmt.Sprintf("%#v if not given", f.Default))
	}
	if f.Limits != "" {
		words = append(words, f.Limits)
	}
	if f.CanChange {
		words = append(words, "can change")
	}
	return strings.Join(words, ", ")
}

// result says what a field of a result holds.
func (f fieldText) result() string {
	if f.Required {
		return f.Type
	}
	return f.Type + ", may be missing"
}

func codeList(codes []writ.Code) string {
	var b strings.Builder
	for i, code := range codes {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(code))
	}
	return b.String()
}
