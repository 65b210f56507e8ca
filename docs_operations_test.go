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

Everything that a script can ask for. An operation is called as ` + "`module.operation(name, spec, options)`" + `, or without the name where it is
about no resource; spec and options may be left out from the end. It returns a handle at once: reading a field of it waits for the result.
[manual/scripts.md](manual/scripts.md) teaches how to work with them. This page is made from the catalogue by ` + "`go generate .`" + `, and
` + "`writ check`" + ` knows the same.

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

*Makes*: "make it so". If the resource is there and its spec is the same, the result is ` + "`unchanged`" + `; if a field marked *can change* is
another, ` + "`updated`" + `; if any other field is, the call fails with ` + "`IMMUTABLE_FIELD`" + `. *Changes*, *reads* and *deletes* speak of a resource that
exists; to delete what is not there is no error. *Finds*: answered by the supervisor from what it knows, without a node.

*Data* says what an operation can do to data that exists. What *reads* changes nothing. What *adds* makes something beside it. What *uses* data
lets programs work with it, or changes what holds it: it can get lost by that. What **destroys** data is there for that; the signature names what
it may be about, with ` + "`--destructive`" + `. Nodes carry out nothing but what reads without the payload that a person signed. What is *not repeated*
ends as ` + "`OUTCOME_UNKNOWN`" + ` if a node died in the middle of it, unless the call says ` + "`idempotent: true`" + `; everything else may be done again.

A field of type *handle* takes what an operation on that kind returned; where it says *or a name*, the name of a resource of the project too.
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
	b.WriteString("\n## Errors\n\nA script that reads a field of a call that failed ends there, unless it has read the handle's `err`, which is `undefined` or\n`{code, message, retryable}`. Besides those that stand with an operation any call may fail with:\n\n")
	for _, code := range everyCall {
		fmt.Fprintf(&b, "- `%s`: %s\n", code, code.Info().Explain)
	}
	b.WriteString("\n[codes.md](codes.md) has all codes, and `writ explain CODE` tells more. Simulated drivers can be told to fail, with `INJECTED` or\n`INJECTED_FINAL`.\n")
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
			help += "; " + limits
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
