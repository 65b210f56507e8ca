package writ_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/interpreter"
	"writ/scripts/operation"
)

func operationsDocument() string {
	var b strings.Builder
	b.WriteString(`# Operations

This page is the reference for authors of [scripts](architecture.md#words). It lists every operation with its fields, results and errors.
[manual/scripts.md](manual/scripts.md) teaches the language.

Call an operation as ` + "`module.operation(name, spec, options)`" + `. Operations without a resource have no name. You can omit options, and also
spec. A call returns a handle at once. Reading a field of the handle waits for the result. ` + "`go generate .`" + ` generates this page from the
catalogue that ` + "`writ check`" + ` uses.

`)
	for _, module := range catalog.Modules() {
		var links []string
		for _, op := range catalog.Of(module) {
			links = append(links, fmt.Sprintf("[%s](#%s)", op.Verb, anchor(op.Name())))
		}
		for _, m := range interpreter.Members(module) {
			if _, operation := catalog.Lookup(module + "." + m.Name); !operation {
				links = append(links, fmt.Sprintf("[%s](#%s)", m.Name, anchor(module)))
			}
		}
		fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", module, anchor(module), strings.Join(links, ", "))
	}
	b.WriteString("- [options](#options) of every call\n- [errors](#errors) of every call\n- [fields of every handle](#fields-of-every-handle)\n- [modules without operations](#modules-without-operations)\n")
	b.WriteString(`
## How to read this page

An operation that *makes* is idempotent. If the resource exists with the same spec, the result is ` + "`unchanged`" + `. If only fields marked *can
change* differ, the result is ` + "`updated`" + `. If another field differs, the call fails with ` + "`IMMUTABLE_FIELD`" + `. *Changes*, *reads* and *deletes*
need an existing resource. Deleting a missing resource succeeds. For *finds* the supervisor answers from its records, without a node.

Each operation has one of these effects on existing data:

- *reads*: it changes no data.
- *adds*: it adds data and leaves existing data unchanged.
- *uses*: programs work with the data, or its holder changes. Data can get lost.
- **destroys**: it deletes or overwrites data. The signature names the resources that it may destroy, with ` + "`--destructive`" + `.

For all operations except *reads*, a node requires the payload that a person signed. If a node dies during a *not repeated* operation, the
call ends as ` + "`OUTCOME_UNKNOWN`" + `, unless it has the option ` + "`idempotent: true`" + `. All other operations may be repeated.

A field of type *handle* accepts the result of an operation on that kind. *Or a name* means that it also accepts the name of a resource of
the project.
`)
	for _, module := range catalog.Modules() {
		fmt.Fprintf(&b, "\n## %s\n", module)
		if module != "node" && module != "run" { // these two need only the node
			fmt.Fprintf(&b, "\nHost requirements: [manual/hosts.md](manual/hosts.md#%s).\n", module)
		}
		writeMembers(&b, module)
		for _, op := range catalog.Of(module) {
			writeOperation(&b, op)
		}
	}
	b.WriteString("\n## Options\n\nThe last argument of every operation but `get` and `now`.\n")
	writeFields(&b, operation.OptionSchema, false)
	b.WriteString("\n## Errors\n\nA script ends when it reads a field of a failed call, unless it has read the field `err` of the handle before. `err` is `undefined` or\n`{code, message, retryable}`. In addition to the errors of its operation, any call may fail with:\n\n")
	for _, code := range catalog.CommonErrors() {
		fmt.Fprintf(&b, "- `%s`: %s\n", code, code.Info().Explain())
	}
	b.WriteString("\n[codes.md](codes.md) lists all codes, and `writ explain CODE` explains one. A test can make simulated drivers fail with `INJECTED` or\n`INJECTED_FINAL`.\n")
	writeEveryHandle(&b)
	b.WriteString("\n## Modules without operations\n\nThese modules have pure functions, without a clock, random numbers, files or network. The documentation of Tengo describes them. In writ they\nhave limits and are deterministic. `times` is in UTC.\n\n")
	for _, module := range scripts.Modules() {
		if len(catalog.Of(module)) > 0 {
			continue
		}
		var names []string
		for _, m := range interpreter.Members(module) {
			names = append(names, "`"+m.Name+"`")
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", module, strings.Join(names, " "))
	}
	return b.String()
}

func writeEveryHandle(b *strings.Builder) {
	b.WriteString("\n## Fields of every handle\n\nReading any field except `name` waits for the result. Handles to resources have all of these fields; other handles have only `err`.\n\n- `err` (map): `undefined` if the call succeeded, else a map with `code`, `message` and `retryable`\n")
	op, _ := catalog.Lookup("volume.delete")
	for _, f := range op.Result {
		fmt.Fprintf(b, "- `%s` (%s): %s\n", f.Name, f.Takes(), f.Help)
	}
}

// writeMembers lists the members of a module that are not operations.
func writeMembers(b *strings.Builder, module string) {
	var rows []string
	for _, m := range interpreter.Members(module) {
		name := m.Name
		if m.Call {
			name += "(" + m.Args + ")"
		}
		rows = append(rows, fmt.Sprintf("| `%s.%s` | %s |\n", module, name, m.Help))
	}
	if len(rows) > 0 {
		b.WriteString("\n| | |\n| --- | --- |\n" + strings.Join(rows, ""))
	}
}

func writeOperation(b *strings.Builder, op *catalog.Operation) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", op.Name(), op.Help)
	facts := strings.Replace(strings.Join(op.Facts(), "; "), "destroys data", "**destroys** data", 1)
	fmt.Fprintf(b, "`%s` — %s.\n", op.Call(), facts)
	if op.Risk != "" {
		fmt.Fprintf(b, "\nRisk: %s\n", op.Risk)
	}
	if len(op.Args) > 0 {
		writeFields(b, op.Args, op.Effect == catalog.Make)
	}
	if op.Module == "run" {
		b.WriteString("\nIt returns a time of the module `times`, not a handle.\n")
		return
	}
	writeResult(b, op)
	var codes []string
	for _, code := range op.Errors() {
		codes = append(codes, fmt.Sprintf("`%s`", code))
	}
	if len(codes) > 0 {
		b.WriteString("\nSpecific errors: " + strings.Join(codes, ", ") + ".\n")
	}
}

// writeResult lists the fields of a handle, except those that every handle has.
func writeResult(b *strings.Builder, op *catalog.Operation) {
	for _, first := range catalog.Of(op.Module) {
		if first == op {
			break
		}
		if len(op.Own()) > 0 && slices.Equal(first.Result.Names(), op.Result.Names()) {
			fmt.Fprintf(b, "\nThe handle has the fields of [%s](#%s).\n", first.Name(), anchor(first.Name()))
			return
		}
	}
	var results []string
	for _, f := range op.Own() {
		text := "`" + f.Name + "`"
		if f.Type != catalog.String {
			text += " (" + f.Takes() + ")"
		}
		text += ": " + f.Help
		if !f.Required {
			text += "; may be missing"
		}
		results = append(results, "- "+text+"\n")
	}
	if len(results) > 0 {
		b.WriteString("\nThe handle has:\n\n" + strings.Join(results, ""))
	}
}

func writeFields(b *strings.Builder, s catalog.Schema, marksChanges bool) {
	b.WriteString("\n| field | type | default | |\n| --- | --- | --- | --- |\n")
	writeRows(b, s, "", marksChanges)
}

func writeRows(b *strings.Builder, s catalog.Schema, under string, marksChanges bool) {
	for i := range s {
		f := &s[i]
		value := ""
		switch {
		case f.Required:
			value = "**required**"
		case f.Default != nil:
			value = fmt.Sprintf("`%#v`", f.Default)
		}
		help := f.Help
		if limits := f.Limits(); limits != "" {
			help += ". " + strings.ToUpper(limits[:1]) + limits[1:]
		}
		if marksChanges && f.Mutable {
			help += " — *can change*"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", under, f.Name, f.Takes(), value, strings.ReplaceAll(help, "|", "\\|"))
		between, fields := catalog.Nested(f)
		writeRows(b, fields, under+f.Name+between, false)
	}
}

// anchor returns the anchor that a Markdown renderer derives from a heading.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

func TestEveryOperationIsDocumented(t *testing.T) {
	text := operationsDocument()
	for _, op := range catalog.Operations() {
		if !strings.Contains(text, "\n### "+op.Name()+"\n") || !strings.Contains(text, "(#"+anchor(op.Name())+")") {
			t.Errorf("%s has no section or no entry in the index", op.Name())
		}
		for _, code := range slices.Concat(catalog.CommonErrors(), op.Errors()) {
			if code.Info().Code != code {
				t.Errorf("unknown code %s", code)
			}
		}
	}
	for _, m := range interpreter.Members("run") {
		if m.Help == "" || !strings.Contains(text, "| `run."+m.Name) {
			t.Errorf("run.%s is not explained", m.Name)
		}
	}
}
