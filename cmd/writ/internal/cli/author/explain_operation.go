package author

import (
	"fmt"
	"strings"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/sal/catalog"
	"writ/scripts/operation"
)

// operationText is the description of an operation from the catalogue.
type operationText struct {
	Operation   string      `json:"operation"`
	Help        string      `json:"help"`
	Call        string      `json:"call"`
	Facts       []string    `json:"facts"`
	Destructive bool        `json:"destructive"`
	Risk        string      `json:"risk,omitempty"` // data that can be lost
	Arguments   []fieldText `json:"arguments"`
	Options     []string    `json:"options"`
	Result      []fieldText `json:"result"`
	Errors      []writ.Code `json:"errors"` // the operation's own errors, then the errors of every call
	Example     string      `json:"example"`

	own int // number of the operation's own errors
}

// fieldText is the description of a field of the arguments or of a result, from the catalogue. Fields of a map in a
// list follow the list, as `volumes[].path`.
type fieldText struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Required  bool   `json:"required"` // of a result: the field is always set
	Default   any    `json:"default,omitempty"`
	Limits    string `json:"limits,omitempty"`
	CanChange bool   `json:"can_change"` // by a later call with the same name
	Help      string `json:"help"`
}

// everyOperation names all operations, including operations that no node executes.
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
		Arguments: fieldTexts(op.Args, ""), Options: []string{}, Result: fieldTexts(op.Result, ""),
		Errors: append(own, catalog.CommonErrors()...), Example: op.Example(),
		own: len(own),
	}
	if op.Effect != catalog.Find {
		t.Options = operation.OptionSchema.Names()
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
			Limits: strings.ReplaceAll(f.Limits(), "`", ""), // backquotes mark literals in the documents
		})
		between, fields := catalog.Nested(f)
		all = append(all, fieldTexts(fields, under+f.Name+between)...)
	}
	return all
}

// view formats an operation in lines of at most width columns; 0 means no limit. Only the example keeps its line
// breaks.
func (t operationText) view(width int) terminal.View {
	return terminal.View{Data: t, Names: []string{t.Operation}, Text: func(bool) string {
		var b strings.Builder
		paragraph := func(text string) { b.WriteString(terminal.Hanging("", 0, width, text)) }
		paragraph(t.Operation + ": " + t.Help)
		fmt.Fprintf(&b, "\n  %s\n\n", t.Call)
		paragraph("It " + strings.Join(t.Facts, "; ") + ".")
		if t.Destructive {
			paragraph("It is destructive: the signature must name its targets, with --destructive.")
		}
		if t.Risk != "" {
			paragraph("Risk: " + t.Risk)
		}
		b.WriteString(fieldLines("Arguments", t.Arguments, width, fieldText.argument))
		if len(t.Options) > 0 {
			b.WriteByte('\n')
			paragraph("Options: " + strings.Join(t.Options, ", ") + " (docs/operations.md#options)")
		}
		b.WriteString(fieldLines("Result", t.Result, width, fieldText.result))
		b.WriteString("\nErrors:\n")
		const own, common = "  of its own", "  of every call"
		if t.own > 0 {
			b.WriteString(terminal.Hanging(own, len(common)+2, width, codeList(t.Errors[:t.own])))
		}
		b.WriteString(terminal.Hanging(common, len(common)+2, width, codeList(t.Errors[t.own:])))
		fmt.Fprintf(&b, "\nExample:\n\n%s\n", indented(strings.TrimSpace(t.Example)))
		return b.String()
	}}
}

// fieldLines lists fields under a title, each with the text that `about` returns and its help. Without fields it
// returns "".
func fieldLines(title string, fields []fieldText, width int, about func(fieldText) string) string {
	if len(fields) == 0 {
		return ""
	}
	name := 0
	for _, f := range fields {
		name = max(name, len(f.Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s:\n", title)
	for _, f := range fields {
		b.WriteString(terminal.Hanging("  "+f.Name, name+4, width, about(f), f.Help))
	}
	return b.String()
}

// argument describes the values of a field: "int, required, 1 to 256, can change".
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

// result describes a field of a result.
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
