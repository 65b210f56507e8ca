// Package editor_test generates and tests the files for editors.
package editor_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
	"writ/scripts/library"
	"writ/scripts/operation"
)

//go:generate go test . -run ^TestGeneratedFiles$ -update

var update = flag.Bool("update", false, "write the files that are made from the catalogue and the tables of the language")

func TestGeneratedFiles(t *testing.T) {
	for path, made := range map[string]any{"syntaxes/tengo.tmLanguage.json": newGrammar(), "snippets/tengo.json": newSnippets()} {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(made); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text.String(), string(got)); diff != "" {
			t.Errorf("%s differs from the tables; run `go generate ./deploy/editor` (-tables +file):\n%s", path, diff)
		}
	}
}

// grammar is a TextMate grammar. Its expressions use only the syntax that Oniguruma and RE2 share.
type grammar struct {
	Comment   string   `json:"comment"`
	Name      string   `json:"name"`
	ScopeName string   `json:"scopeName"`
	FileTypes []string `json:"fileTypes"`
	Patterns  []rule   `json:"patterns"`
}

// rule is a pattern: either Match, or Begin and End with nested patterns.
type rule struct {
	Name     string           `json:"name,omitempty"`
	Match    string           `json:"match,omitempty"`
	Begin    string           `json:"begin,omitempty"`
	End      string           `json:"end,omitempty"`
	Captures map[string]named `json:"captures,omitempty"`
	Patterns []rule           `json:"patterns,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

// Scopes that the test checks.
const (
	scopeComment     = "comment.line.double-slash.tengo"
	scopeBlock       = "comment.block.tengo"
	scopeString      = "string.quoted.double.tengo"
	scopeRaw         = "string.quoted.other.backtick.tengo"
	scopeChar        = "string.quoted.single.tengo"
	scopeNumber      = "constant.numeric.tengo"
	scopeConstant    = "constant.language.tengo"
	scopeKeyword     = "keyword.control.tengo"
	scopeFunc        = "storage.type.function.tengo"
	scopeBuiltin     = "support.function.builtin.tengo"
	scopeModule      = "support.class.module.tengo"
	scopeOperation   = "support.function.operation.tengo"
	scopeDestructive = "support.function.destructive.tengo"
	scopeMember      = "support.function.member.tengo"
	scopeField       = "support.type.property-name.tengo"
	scopeKey         = "meta.object-literal.key.tengo"
	scopeFunction    = "entity.name.function.tengo"
	scopeOperator    = "keyword.operator.tengo"
	scopeVariable    = "variable.other.tengo"
)

func newGrammar() grammar {
	escape := rule{Name: "constant.character.escape.tengo", Match: `\\(?:[abfnrtv\\'"]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3})`}
	g := grammar{
		Comment: "made by go generate ./deploy/editor", Name: "Tengo", ScopeName: "source.tengo", FileTypes: []string{"tengo"},
		Patterns: []rule{
			{Name: scopeComment, Match: `//.*$`},
			{Name: scopeBlock, Begin: `/\*`, End: `\*/`},
			{Name: scopeString, Begin: `"`, End: `"`, Patterns: []rule{escape}},
			{Name: scopeRaw, Begin: "`", End: "`"},
			{Name: scopeChar, Begin: `'`, End: `'`, Patterns: []rule{escape}},
			{Match: `\b([A-Za-z_][A-Za-z0-9_]*)\s*(:=)\s*(func)\b`, Captures: captures(scopeFunction, scopeOperator, scopeFunc)},
		},
	}
	g.Patterns = append(g.Patterns, memberRules()...)
	g.Patterns = append(g.Patterns,
		rule{Match: `\b(` + strings.Join(fieldNames(), "|") + `)(:)`, Captures: captures(scopeField, scopeOperator)},
		rule{Match: `\b([A-Za-z_][A-Za-z0-9_]*)(:)(?:\s|$)`, Captures: captures(scopeKey, scopeOperator)},
	)
	g.Patterns = append(g.Patterns, wordRules()...)
	g.Patterns = append(g.Patterns,
		rule{Name: scopeNumber, Match: `\b(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\b`},
		rule{Name: scopeOperator, Match: `:=|\.\.\.|&\^=|<<=|>>=|\+\+|--|==|!=|<=|>=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|&\^|<<|>>|[-+*/%&|^<>!=?:]`},
		rule{Name: scopeVariable, Match: `\b[A-Za-z_][A-Za-z0-9_]*\b`},
	)
	return g
}

func captures(names ...string) map[string]named {
	m := make(map[string]named)
	for i, name := range names {
		m[fmt.Sprint(i+1)] = named{name}
	}
	return m
}

// memberRules match module.member if the module has its usual name.
func memberRules() (rules []rule) {
	add := func(module, scope string, members []string) {
		if len(members) > 0 {
			rules = append(rules, rule{Match: `\b(` + module + `)(\.)(` + strings.Join(members, "|") + `)\b`, Captures: captures(scopeModule, scopeOperator, scope)})
		}
	}
	for _, module := range scripts.Modules() {
		var safe, destructive, others []string
		for _, op := range catalog.Of(module) {
			if op.Destructive {
				destructive = append(destructive, op.Verb)
			} else {
				safe = append(safe, op.Verb)
			}
		}
		for _, m := range interpreter.Members(module) {
			if _, ok := catalog.Lookup(module + "." + m.Name); !ok {
				others = append(others, m.Name)
			}
		}
		add(module, scopeDestructive, destructive)
		add(module, scopeOperation, safe)
		add(module, scopeMember, others)
	}
	return rules
}

// fieldNames returns the keys of all specs, options and parameter declarations.
func fieldNames() []string {
	var names []string
	var walk func(s catalog.Schema)
	walk = func(s catalog.Schema) {
		for _, f := range s {
			names = append(names, f.Name)
			walk(f.Fields)
			if f.Elem != nil {
				walk(f.Elem.Fields)
			}
		}
	}
	for _, op := range catalog.Operations() {
		walk(op.Args)
	}
	walk(operation.OptionSchema)
	walk(check.ParamFields())
	slices.Sort(names)
	return slices.Compact(names)
}

// wordRules match the keywords of the language.
func wordRules() []rule {
	constants := []string{"true", "false", "undefined"}
	functions := []string{"error", "immutable"} // keywords that are called like functions
	var control []string
	for _, word := range scripts.Keywords() {
		if word != "func" && !slices.Contains(constants, word) && !slices.Contains(functions, word) {
			control = append(control, word)
		}
	}
	words := func(list []string) string { return `\b(?:` + strings.Join(list, "|") + `)\b` }
	return []rule{
		{Name: scopeConstant, Match: words(constants)},
		{Name: scopeFunc, Match: `\bfunc\b`},
		{Name: scopeKeyword, Match: words(control)},
		{Name: scopeBuiltin, Match: words(append(functions, interpreter.Builtins()...))},
	}
}

// snippet is a snippet in the common format of editors.
type snippet struct {
	Prefix      string   `json:"prefix"`
	Body        []string `json:"body"`
	Description string   `json:"description"`
}

func newSnippets() map[string]snippet {
	all := map[string]snippet{
		"params": {"params", []string{"params := {", "\t${1:count}: {type: \"${2:int}\", default: ${3:1}, help: \"${4:what it is for}\"}", "}", "p := run.params"},
			"the parameters of a script, and their values"},
		"test": {"test", []string{"test_${1:what_must_be_so} := func(t) {", "\tr := t.run(\"${2:web.tengo}\")", "\tt.equal(r.state, \"succeeded\")", "}"},
			"a test of a script, in a file that ends with _test.tengo"},
		"handled": {"iferr", []string{"if err := ${1:handle}.err; err {", "\trun.log(\"${2:it failed}:\", err.code, err.message)", "}"},
			"look at the error of a call and go on"},
		"times": {"for", []string{"for i := 0; i < ${1:3}; i++ {", "\t$0", "}"}, "a loop that counts"},
		"each":  {"forin", []string{"for ${1:item} in ${2:list} {", "\t$0", "}"}, "a loop over a list or map"},
		"func":  {"func", []string{"${1:name} := func(${2:x}) {", "\treturn ${2:x}", "}"}, "a function"},
	}
	for _, module := range scripts.Modules() {
		all["import "+module] = snippet{"import " + module, []string{module + " := import(\"" + module + "\")"}, "import the module " + module}
	}
	for _, name := range library.Names() {
		m, _ := library.Find(name)
		short, _, _ := strings.Cut(strings.TrimPrefix(name, library.Prefix), "@")
		all["import "+name] = snippet{"import " + name, []string{short + " := import(\"" + name + "\")"}, m.About}
	}
	for _, op := range catalog.Operations() {
		all[op.Name()] = snippet{op.Name(), []string{operationBody(op)}, op.Help}
	}
	return all
}

// operationBody returns a call with all required fields.
func operationBody(op *catalog.Operation) string {
	next := 0
	hole := func(text string) string {
		next++
		return fmt.Sprintf("${%d:%s}", next, text)
	}
	var args []string
	if op.Named() {
		args = append(args, `"`+hole("name")+`"`)
	}
	if spec := requiredFields(op.Args, hole); spec != "" {
		args = append(args, "{"+spec+"}")
	}
	return op.Name() + "(" + strings.Join(args, ", ") + ")"
}

func requiredFields(s catalog.Schema, hole func(string) string) string {
	var fields []string
	for i := range s {
		if s[i].Required {
			fields = append(fields, s[i].Name+": "+sample(&s[i], hole))
		}
	}
	return strings.Join(fields, ", ")
}

// sample returns a valid value for a field, with a placeholder for the editor.
func sample(f *catalog.Field, hole func(string) string) string {
	switch f.Type {
	case catalog.Int:
		least := int64(1)
		if f.Min != nil {
			least = *f.Min
		}
		return hole(fmt.Sprint(least))
	case catalog.Bool:
		return hole("true")
	case catalog.Handle:
		if f.Registry {
			return `"` + hole("docker.io/library/nginx:1.27") + `"`
		}
		if f.ByName {
			return `"` + hole(string(f.Kinds[0])) + `"`
		}
		return fmt.Sprintf(`%s.get("%s")`, f.Kinds[0], hole(string(f.Kinds[0])))
	case catalog.List:
		if f.First != nil {
			return "[" + sample(f.First, hole) + "]"
		}
		if f.Elem.Type != catalog.Object {
			return "[" + sample(f.Elem, hole) + "]"
		}
		if inside := requiredFields(f.Elem.Fields, hole); inside != "" {
			return "[{" + inside + "}]"
		}
		return "[{" + hole("") + "}]"
	case catalog.Map, catalog.Object:
		return "{" + hole("") + "}"
	default:
		if text := f.Sample(); text != "" {
			return `"` + hole(text) + `"`
		}
		return `"` + hole(f.Name) + `"`
	}
}
