package writ_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
)

// everyCall are the codes with which a call of any operation may fail, whatever it does.
var everyCall = []writ.Code{
	writ.CodeArgumentsInvalid, writ.CodeDependencyFailed, writ.CodeDeadlineExceeded, writ.CodeNodeLost, writ.CodeNoCapacity,
	writ.CodeDriverMissing, writ.CodeDriverFailed, writ.CodeRunCancelled,
}

// besides are the codes that come on top of these.
func besides(op *catalog.Operation) []writ.Code {
	var codes []writ.Code
	switch op.Effect {
	case catalog.Make:
		codes = []writ.Code{writ.CodeImmutableField, writ.CodeResourceConflict, writ.CodeNotOwner, writ.CodeQuotaExceeded, writ.CodeDiskFull}
	case catalog.Alter:
		codes = []writ.Code{writ.CodeResourceUnknown, writ.CodeResourceConflict, writ.CodeNotOwner}
	case catalog.Remove:
		codes = []writ.Code{writ.CodeResourceConflict, writ.CodeNotOwner}
	case catalog.Find:
		if op.Named() {
			return []writ.Code{writ.CodeResourceUnknown}
		}
		return nil
	case catalog.Look:
		if op.Named() {
			codes = []writ.Code{writ.CodeResourceUnknown}
		}
	}
	if op.Origin != "" {
		codes = append(codes, writ.CodeResourceUnknown, writ.CodeUnreachable, writ.CodeChecksumMismatch)
	}
	if op.Repeat == catalog.Once {
		codes = append(codes, writ.CodeOutcomeUnknown)
	}
	return codes
}

func operationsDocument() string {
	var b strings.Builder
	b.WriteString(`# Operations

This page is for people who write [scripts](architecture.md#words). It lists every operation with its fields, results and errors. [manual/scripts.md](manual/scripts.md)
teaches the language.

Call an operation as ` + "`module.operation(name, spec, options)`" + `. Operations that have no resource take no name. You can omit options, and spec
too. A call returns a handle at once. Reading a field of the handle waits for the result. ` + "`go generate .`" + ` makes this page from the catalogue that
` + "`writ check`" + ` uses.

`)
	for _, module := range catalog.Modules() {
		var links []string
		for _, op := range catalog.Of(module) {
			links = append(links, fmt.Sprintf("[%s](#%s)", op.Verb, anchor(op.Name())))
		}
		for _, m := range scripts.Members(module) {
			if _, operation := catalog.Lookup(module + "." + m.Name); !operation {
				links = append(links, fmt.Sprintf("[%s](#%s)", m.Name, anchor(module)))
			}
		}
		fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", module, anchor(module), strings.Join(links, ", "))
	}
	b.WriteString("- [options](#options) of every call\n- [errors](#errors) of every call\n- [fields of every handle](#fields-of-every-handle)\n- [modules without operations](#modules-without-operations)\n")
	b.WriteString(`
## How to read this page

An operation that *makes* is idempotent. If the resource exists with the same spec, the result is ` + "`unchanged`" + `. If only fields differ that are marked
*can change*, the result is ` + "`updated`" + `. If another field differs, the call fails with ` + "`IMMUTABLE_FIELD`" + `. *Changes*, *reads* and *deletes* are about a
resource that exists. Deleting a resource that does not exist is no error. For *finds* the supervisor answers from its records, without a node.

*Data* says what an operation can do to data that exists:

- *reads*: it changes no data.
- *adds*: it makes data beside existing data.
- *uses*: programs work with the data, or its holder changes. Data can get lost by that.
- **destroys**: it deletes or overwrites data. The signature names the resources that it may destroy, with ` + "`--destructive`" + `.

Without the payload that a person signed, nodes carry out only operations that read. A *not repeated* operation ends as ` + "`OUTCOME_UNKNOWN`" + ` if its node died
meanwhile, unless the call says ` + "`idempotent: true`" + `. All other operations may be repeated.

A field of type *handle* takes the result of an operation on that kind. *Or a name* means that it also takes the name of a resource of the project.
`)
	for _, module := range catalog.Modules() {
		fmt.Fprintf(&b, "\n## %s\n", module)
		if module != "node" && module != "run" { // which need nothing but the node
			fmt.Fprintf(&b, "\nWhat its driver needs on a host: [manual/hosts.md](manual/hosts.md#%s).\n", module)
		}
		writeMembers(&b, module)
		for _, op := range catalog.Of(module) {
			writeOperation(&b, op)
		}
	}
	b.WriteString("\n## Options\n\nThe last argument of every operation but `get` and `now`.\n")
	writeFields(&b, scripts.Options(), false)
	b.WriteString("\n## Errors\n\nA script that reads a field of a call that failed ends there, unless it has read the handle's `err`, which is `undefined` or\n`{code, message, retryable}`. Besides the errors of its operation, any call may fail with:\n\n")
	for _, code := range everyCall {
		fmt.Fprintf(&b, "- `%s`: %s\n", code, code.Info().Explain)
	}
	b.WriteString("\n[codes.md](codes.md) has all codes, and `writ explain CODE` tells more. A test can let simulated drivers fail, with `INJECTED` or\n`INJECTED_FINAL`.\n")
	writeEveryHandle(&b)
	b.WriteString("\n## Modules without operations\n\nPure functions, without a clock, chance, files or network. Tengo's own documents describe them; here they are bounded and always give the\nsame. `times` is in UTC.\n\n")
	for _, module := range scripts.Modules() {
		if len(catalog.Of(module)) > 0 {
			continue
		}
		var names []string
		for _, m := range scripts.Members(module) {
			names = append(names, "`"+m.Name+"`")
		}
		fmt.Fprintf(&b, "- `%s`: %s\n", module, strings.Join(names, " "))
	}
	return b.String()
}

func writeEveryHandle(b *strings.Builder) {
	b.WriteString("\n## Fields of every handle\n\nAll but `name` wait for the result. Handles to resources have all of these, others have `err`.\n\n- `err` (map): `undefined` if the call succeeded, else a map with `code`, `message` and `retryable`\n")
	op, _ := catalog.Lookup("volume.delete")
	for _, f := range op.Result {
		fmt.Fprintf(b, "- `%s` (%s): %s\n", f.Name, typeOf(&f), f.Help)
	}
}

// writeMembers writes what a module has besides operations.
func writeMembers(b *strings.Builder, module string) {
	var rows []string
	for _, m := range scripts.Members(module) {
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
	facts := []string{map[catalog.Effect]string{
		catalog.Make: "makes", catalog.Alter: "changes", catalog.Look: "reads", catalog.Remove: "deletes", catalog.Find: "finds",
	}[op.Effect]}
	if op.Named() {
		facts[0] += fmt.Sprintf(" a resource of kind %s", op.Kind)
	}
	if op.Destructive {
		facts = append(facts, "**destroys** data")
	} else if op.Data != catalog.DataReads {
		facts = append(facts, string(op.Data)+" data")
	}
	if op.Repeat == catalog.Once {
		facts = append(facts, "not repeated")
	}
	if op.Effect != catalog.Find {
		facts = append(facts, "at most "+duration(op.Timeout)+" if `timeout` says nothing else")
	}
	fmt.Fprintf(b, "`%s` — %s.\n", call(op), strings.Join(facts, "; "))
	if op.Risk != "" {
		fmt.Fprintf(b, "\nWhat can get lost: %s\n", op.Risk)
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
	for _, code := range besides(op) {
		codes = append(codes, fmt.Sprintf("`%s`", code))
	}
	if len(codes) > 0 {
		b.WriteString("\nErrors of its own: " + strings.Join(codes, ", ") + ".\n")
	}
}

// identity are the fields of every handle to a resource.
var identity = func() []string {
	op, _ := catalog.Lookup("volume.delete")
	return op.Result.Names()
}()

// writeResult says what fields a handle has besides those that all have.
func writeResult(b *strings.Builder, op *catalog.Operation) {
	for _, first := range catalog.Of(op.Module) {
		if first == op {
			break
		}
		if len(op.Result) > len(identity) && slices.Equal(first.Result.Names(), op.Result.Names()) {
			fmt.Fprintf(b, "\nThe handle has the fields of [%s](#%s).\n", first.Name(), anchor(first.Name()))
			return
		}
	}
	var results []string
	for _, f := range op.Result {
		if op.Named() && slices.Contains(identity, f.Name) {
			continue
		}
		text := "`" + f.Name + "`"
		if f.Type != catalog.String {
			text += " (" + typeOf(&f) + ")"
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

// call shows how an operation is called.
func call(op *catalog.Operation) string {
	var args []string
	if op.Named() {
		args = append(args, "name")
	}
	if op.Effect != catalog.Find {
		var required []string
		for _, f := range op.Args {
			if f.Required {
				required = append(required, f.Name+": …")
			}
		}
		switch {
		case len(op.Args) > len(required):
			args = append(args, "{"+strings.Join(append(required, "…"), ", ")+"}")
		default:
			args = append(args, "{"+strings.Join(required, ", ")+"}")
		}
		args = append(args, "options")
	}
	return op.Name() + "(" + strings.Join(args, ", ") + ")"
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
		if limits := limitsOf(f); limits != "" {
			help += ". " + strings.ToUpper(limits[:1]) + limits[1:]
		}
		if marksChanges && f.Mutable {
			help += " — *can change*"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", under, f.Name, typeOf(f), value, strings.ReplaceAll(help, "|", "\\|"))
		if f.Type == catalog.List && f.Elem.Type == catalog.Object {
			writeRows(b, f.Elem.Fields, under+f.Name+"[].", false)
		}
	}
}

// typeOf says what a field takes.
func typeOf(f *catalog.Field) string {
	switch f.Type {
	case catalog.List:
		return "list of " + plural(f.Elem)
	case catalog.Map:
		return "map of " + plural(f.Elem)
	case catalog.Object:
		return "map"
	case catalog.Handle:
		text := "handle to " + string(f.Kinds[0])
		if f.ByName {
			text += " or a name"
		}
		return text
	default:
		return string(f.Type)
	}
}

func plural(f *catalog.Field) string {
	switch f.Type {
	case catalog.Object:
		return "maps"
	case catalog.Handle:
		return "handles to " + string(f.Kinds[0])
	default:
		return string(f.Type) + "s"
	}
}

// limitsOf says what bounds a field has.
func limitsOf(f *catalog.Field) string {
	var parts []string
	unit := map[catalog.Type]string{catalog.String: " bytes", catalog.List: " elements", catalog.Map: " entries"}[f.Type]
	switch {
	case f.Min != nil && f.Max != nil:
		parts = append(parts, fmt.Sprintf("%d to %d%s", *f.Min, *f.Max, unit))
	case f.Min != nil && *f.Min > 1:
		parts = append(parts, fmt.Sprintf("at least %d%s", *f.Min, unit))
	case f.Max != nil:
		parts = append(parts, fmt.Sprintf("at most %d%s", *f.Max, unit))
	}
	inner := f
	if f.Elem != nil {
		inner = f.Elem
		if f.Elem.Min != nil && f.Elem.Max != nil {
			parts = append(parts, fmt.Sprintf("each %d to %d", *f.Elem.Min, *f.Elem.Max))
		}
	}
	if inner.Enum != nil {
		parts = append(parts, "`"+strings.Join(inner.Enum, "`, `")+"`")
	}
	if inner.Secret {
		parts = append(parts, "may be a secret")
	}
	if inner.Form != "" {
		parts = append(parts, inner.Form)
	}
	if f.Key != nil && f.Key.Form != "" {
		parts = append(parts, "each key "+f.Key.Form)
	}
	return strings.Join(parts, "; ")
}

func duration(d time.Duration) string {
	return strings.NewReplacer("m0s", "m", "h0m", "h").Replace(d.String())
}

// anchor is what a renderer makes of a heading.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

func TestEveryOperationIsDocumented(t *testing.T) {
	text := operationsDocument()
	for _, op := range catalog.Operations() {
		if !strings.Contains(text, "\n### "+op.Name()+"\n") || !strings.Contains(text, "(#"+anchor(op.Name())+")") {
			t.Errorf("%s has no section or no entry in the index", op.Name())
		}
		for _, code := range slices.Concat(everyCall, besides(op)) {
			if code.Info().Code != code {
				t.Errorf("there is no code %s", code)
			}
		}
	}
	for _, m := range scripts.Members("run") {
		if m.Help == "" || !strings.Contains(text, "| `run."+m.Name) {
			t.Errorf("run.%s is not explained", m.Name)
		}
	}
}
