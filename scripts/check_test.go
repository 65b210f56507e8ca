package scripts_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
)

var update = flag.Bool("update", false, "rewrite golden files")

// findings returns "W0101 2:5" for each diagnostic.
func findings(r check.Report) []string {
	var all []string
	for _, d := range r.Diagnostics {
		all = append(all, fmt.Sprintf("%s %d:%d", d.Code, d.Line, d.Column))
	}
	return all
}

// many joins n texts of f.
func many(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

const use = "m := import(\"machine\"); v := import(\"volume\"); n := import(\"node\"); r := import(\"run\")\n"

func TestWordsOfOtherLanguagesAreTranslated(t *testing.T) {
	for text, want := range map[string]string{
		"a := 1\nlet b = 2":                     "name := value",
		"fn double(x) { return x + x }":         "name := func",
		"func double(x) { return x + x }":       "name := func",
		"\twhile true { }":                      "for condition {",
		"if 1 { }\nelif 2 { }":                  "else if",
		"resource \"machine\" \"web\" { }":      "machine.create",
		"try { } catch e { }":                   "err of a handle",
		"a := 1 2":                              "before 2 an operator",
		"letter := 1 2":                         "before 2 an operator",
		"a := \"let b = 2\" let":                "before let an operator",
		"switch := {\n\ta: 1\n\tb: 2\n}":        "a comma is missing before b",
		"x := [\n\t1,\n\t2,\n]\nvar y = x // é": "name := value",
	} {
		r := check.Check(bundleOf(text))
		if len(r.Diagnostics) == 0 || !strings.Contains(r.Diagnostics[0].Help, want) {
			t.Errorf("%q: %+v, want help with %q", text, r.Diagnostics, want)
		}
	}
}

var wrong = []struct {
	text string
	want []string
}{
	// Syntax.
	{"a := 1 2\nb := 3\nif {}\nfor c := }", []string{"W0001 1:8", "W0001 3:4", "W0001 4:10"}},
	{"a := [1, 2,]\nb := {c: 1,}\nlen(a,)", nil},
	{"a := [1, , 2]", []string{"W0001 1:10"}},
	{"a := [,]", []string{"W0001 1:7"}},
	{"a := [1,,]", []string{"W0001 1:9"}},
	{"a := func() { a, }", []string{"W0001 1:18"}},
	{"a := 'ab'\n", []string{"W0001 1:6"}},
	{"a := \"x", []string{"W0001 1:6"}},
	{"a := 1\x00", []string{"W0001 1:7", "W0001 1:7"}},
	{"import(\"run\").log(1) // \x1b[2K", []string{"W0009 1:25"}},
	{"for a, b, c in [1] {}", []string{"W0001 1:1"}},
	{strings.Repeat(" ", scripts.MaxSource+1), []string{"W0002 1:1"}},
	{"a := " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300), []string{"W0003 1:206"}},
	{"a := " + strings.Repeat("[", 60_000), []string{"W0003 1:206"}},
	{"a := " + strings.Repeat("!", 60_000) + "true", []string{"W0003 1:1206"}},
	{"a := " + strings.Repeat("- ", 500) + "1", []string{"W0003 1:802"}},
	{"a := " + strings.Repeat("true ? 1 : ", 5_000) + "1", []string{"W0003 1:13211"}},
	{"a := " + strings.Repeat("1 + ", 5_000) + "1", []string{"W0003 1:4808"}},
	{"a := " + strings.Repeat("1 + ", 1_100) + "1", []string{"W0003 1:6"}},
	{"a := {}; b := a" + strings.Repeat(".a", 30_000), []string{"W0003 1:15"}},
	{"a := {}\na" + strings.Repeat(".a", 250) + " = 1\n", nil},
	{"a := {}\na" + strings.Repeat(".a", 251) + " = 1\n", []string{"W0003 2:1"}},
	{"a := {}\na" + strings.Repeat(".a", 500) + " = 1\n", []string{"W0003 2:1"}},
	{"f := func() {}\nf" + strings.Repeat("()", 1_000), []string{"W0003 2:1"}},
	{"a := true\nif a {}" + strings.Repeat(" else if a {}", 4_000), []string{"W0003 2:15606"}},
	{strings.Repeat("if true {\n", 250) + strings.Repeat("}\n", 250), []string{"W0003 201:9"}},
	{"f := func() {\n" + many(300, func(i int) string { return fmt.Sprintf("v%d := %d\n", i, i) }) + "}", []string{"W0004 1:6"}},
	{"f := func() {\n" + many(300, func(i int) string { return fmt.Sprintf("if true { v%d := %d; v%d++ }\n", i, i, i) }) + "}", nil},
	{many(1_100, func(i int) string { return fmt.Sprintf("v%d := %d\n", i, i) }), []string{"W0004 1:1"}},
	{"for i := 0; i < 2; i++ {\n" + many(1_100, func(i int) string { return fmt.Sprintf("v%d := %d\n", i, i) }) + "}", []string{"W0004 1:1"}},
	{"f := func() {\n" + many(200, func(i int) string { return fmt.Sprintf("a%d := 1\n", i) }) +
		"g := func() {\n" + many(200, func(i int) string { return fmt.Sprintf("b%d := 1\n", i) }) +
		"return func() {\nx := 0\n" + many(200, func(i int) string { return fmt.Sprintf("x = a%d; x = b%d\n", i, i) }) + "}\n}\n}", []string{"W0004 403:8"}},
	{"len(" + strings.Repeat("1, ", 300) + "1)", []string{"W0005 1:1"}},
	{"f := func(" + strings.Repeat("a, ", 300) + "b) {}", []string{"W0005 1:6"}},
	{"a := [" + strings.Repeat("1, ", 1_000) + "1]", []string{"W0006 1:6"}},
	{"a := {" + many(1_001, func(i int) string { return fmt.Sprintf("k%d: 1, ", i) }) + "z: 1}", []string{"W0006 1:6"}},

	// Operations.
	{use + `m.crate("a")` + "\nn.ping(); r.logg(1)", []string{"W0101 2:3", "W0101 3:13"}},
	{use + `m["crate"]("a"); x := import("text").upper`, []string{"W0101 2:3", "W0101 2:38"}},
	{use + `m.create("a"); m.get("a", {}); n.ping(1, 2, 3); r.now(1); r.output()`, []string{"W0102 2:1", "W0102 2:16", "W0102 2:32", "W0102 2:49", "W0102 2:59"}},
	{use + `m.get(1); m.start("a", 5); m.start("a", [])`, []string{"W0103 2:7", "W0103 2:24", "W0103 2:41"}},
	{use + `a := v.get("a"); m.start(a)`, []string{"W0103 2:26"}},
	{use + "m.create(\"a\", {\n\tcpus: 2, memory: 2048\n})", []string{"W0104 3:11"}},
	{use + `c := import("network"); c.allow("a", {rules: [{port: [80]}]})`, []string{"W0104 2:48"}},
	{use + `a := v.create("a", {size_gib: 1}); b := v.create("b", {size_gib: 1}); m.create("a", {cpus: 1, memory_mib: 64, disks: [a, b]})`, nil},
	{use + `a := v.create("a", {size_gib: 1}); m.create("a", {cpus: 1, memory_mib: 64, disks: [a, a]})`, []string{"W0105 2:87"}},
	{use + `n.ping({}, {node: "N 1", labels: {Disk: "a b"}})`, []string{"W0108 2:19", "W0108 2:41"}},
	{use + `v.create("a", {size_gib: "1"}); v.create("b", {size_gib: 1.5}); v.create("c", {size_gib: 0})`, []string{"W0105 2:26", "W0105 2:58", "W0105 2:90"}},
	{use + `x := n.ping(); m.create("a", {cpus: 1, memory_mib: 64, disks: [x, v.get("b")], env: {A: v.get("b")}})`, []string{"W0105 2:64", "W0105 2:89"}},
	{use + `v.create("a", {}); v.create("b", {size_gib: r.params.x})` + "\nparams := {x: {type: \"int\", default: 1}}", []string{"W0106 2:15"}},
	{use + `n.ping({}, {retry: 1, time: "5m"})`, []string{"W0107 2:13", "W0107 2:23"}},
	{`m := import("machine"); m.create("a", {cpus: 1, memory_mib: 64}, {on_loss: "replace", node: "n1"}); m.stop("a", {}, {on_loss: "replace"}); m.delete("a", {}, {on_loss: "replace"})`, []string{"W0108 1:76", "W0108 1:127"}},
	{`c := import("container"); c.exec("a", {command: ["true"]}, {on_loss: "replace"}); c.exec("a", {command: ["true"]}, {on_loss: "replace", idempotent: true})`, []string{"W0108 1:70", "W0108 1:126"}},
	{`c := import("container"); c.stop("a", {grace_seconds: 60}, {timeout: "1m"}); c.stop("a", {grace_seconds: 60}, {timeout: "61s"}); c.stop("a", {}, {timeout: "10s"}); c.logs("a", {wait_seconds: 60}, {timeout: "30s"})`, []string{"W0108 1:70", "W0108 1:207"}},
	{use + `n.ping({}, {retries: -1}); n.ping({}, {on_loss: "wiat"}); n.ping({}, {timeout: "5 minutes"})`, []string{"W0108 2:22", "W0108 2:49", "W0108 2:80"}},
	{use + `v.get("Data"); v.get("")`, []string{"W0109 2:7", "W0109 2:22"}},
	{use + `h := v.get("a"); h.adress; h.err; h.name; n.ping().name; v.get("a").size`, []string{"W0110 2:20", "W0110 2:52", "W0110 2:69"}},
	{use + `h := v.get("a"); h = {adress: 1}; h.adress`, nil},
	{use + `x := m; y := [v]; f := func(z) {}; f(n); m = 1; q := true ? r : 1; m[x]()`, []string{"W0111 1:6", "W0111 2:6", "W0111 2:15", "W0111 2:38", "W0111 2:42", "W0111 2:61", "W0111 2:68"}},
	{"a := {b: 1, \"b\": 2}", []string{"W0112 1:13"}},
	{use + `s := r.secret("a"); x := "x" + s; y := s == "x"; z := s.value; q := string(s); r.output({v: [s]})`,
		[]string{"W0113 2:32", "W0113 2:40", "W0113 2:55", "W0113 2:76", "W0113 2:94"}},
	{use + `s := r.secret("a"); m.create("a", {cpus: s, memory_mib: 64, env: {A: s}}); m.get(s); j := import("json").encode({v: s})`,
		[]string{"W0113 2:42", "W0113 2:82", "W0113 2:117"}},
	{use + `h := import("herodb"); h.create("a", {memory_mib: 64, password: "x"})`, []string{"W0105 2:65"}},
	{use + `a := r.secret("DB"); b := r.secret("db@3"); c := r.secret(1); d := r.secret()`, []string{"W0114 2:15", "W0114 2:36", "W0103 2:59", "W0102 2:68"}},

	// Calls of a run.
	{use + "for i := 0; i < 10001; i++ { n.ping() }\nm.get(r.id); v.get(\"v\")", []string{"W0115 2:1"}},
	{use + "n.ping()\nfor i := 10; i > 0; i -= 3 { for x in range(0, 2600) { n.ping({}, {node: \"n\" + i + x}) } }\nm.get(r.id); v.get(\"v\")", []string{"W0115 3:1"}},
	{use + "for i := 0; i < 10000; i++ { n.ping() }; m.get(r.id); for x in [] { v.get(x) }", []string{"W0115 2:42"}},
	{use + "for i := 0; i < 10000; i++ { if m.get(\"m\").err { n.ping(); v.get(\"v\") } }; r.log(1)", nil},
	{use + "for i := 0; i < 9000; i++ { if m.get(\"m\").err { break }; n.ping(); v.get(\"v\") }; r.log(1)", nil},
	{use + "for i := 0; i < 9000; i++ { if i > 5 { continue }; m.get(\"m\"); n.ping(); v.get(\"v\") }; r.log(1)", nil},
	{use + "for i := 0; i < 9000; i++ { m.get(\"m\"); n.ping(); v.get(\"v\"); i = 9000 }; r.log(1)", nil},
	{use + "if n.ping().err { r.fail(\"no\") }\nfor i := 0; i < 9000; i++ { m.get(\"m\"); v.get(\"v\") }", nil},
	{use + "f := func() { for i := 0; i < 9000; i++ { m.get(\"m\"); v.get(\"v\"); n.ping() } }\nif r.params.x { f() }\nparams := {x: {type: \"bool\", default: false}}", nil},

	// Names.
	{"a := b\nc = 1\nd++\nfoo(lenn(a))", []string{"W0201 1:6", "W0201 2:1", "W0201 3:1", "W0201 4:1", "W0201 4:5"}},
	{"f := func() { return g() }\ng := func() {}", []string{"W0201 1:22"}},
	{"if true { a := 1 }\na", []string{"W0201 2:1"}},
	{"x := x", []string{"W0201 1:6"}},
	{"f := func(n) { return n > 0 ? f(n - 1) : 0 }\nfor i in [1] { i }\nfor k, v in {} { k; v }\nfor _ in [1] {}", nil},
	{"a := 1\na := 2\nif a := 3; a { a := 4 }\nf := func(b, b) {}", []string{"W0202 2:1", "W0202 4:14"}},
	{"len := 1\nf := func(time) {}\nfor copy in [1] {}\nappend = 1\nbytes++", []string{"W0203 1:1", "W0203 2:11", "W0203 3:5", "W0203 4:1", "W0203 5:1"}},
	{"a := import(\"os\")\nb := import(\"machin\")\nc := import(\"\")", []string{"W0204 1:6", "W0204 2:6", "W0204 3:6"}},
	{"return 1\nbreak\ncontinue\nfor { func() { break }() }\nfor { break a }", []string{"W0207 1:1", "W0207 2:1", "W0207 3:1", "W0207 4:16", "W0207 5:13"}},
	{"a, b := 1, 2\n1 = 2\nlen(1).x = 2\nc := {}\nc.d := 1", []string{"W0208 1:1", "W0208 2:1", "W0208 3:1", "W0208 5:1"}},
	{"export 1\nif true { export 2 }", []string{"W0209 1:1", "W0209 2:11"}},

	// Parameters.
	{"params := 1", []string{"W0301 1:11"}},
	{"x := 1\nparams := {a: {type: \"int\", default: x}}", []string{"W0301 2:38"}},
	{"params := {a: {type: \"int\", default: 1}}\nparams = 1", []string{"W0301 1:1", "W0305 2:1"}},
	{`params := {a: 1, b: {}, c: {type: "integer"}, d: {type: "int", defualt: 1}, "e-f": {type: "int"}, if: {type: "int"}}`, []string{"W0001 1:99"}},
	{`params := {a: 1, b: {}, c: {type: "integer"}, d: {type: "int", defualt: 1}, "e-f": {type: "int"}}`,
		[]string{"W0302 1:15", "W0302 1:18", "W0302 1:29", "W0302 1:64", "W0302 1:77"}},
	{`params := {a: {type: "int", min: 2, max: 1}, b: {type: "bool", min: 1}, c: {type: "int", pattern: "a"}, d: {type: "string", pattern: "("}, e: {type: "int", of: "int"}, f: {type: "int", enum: ["a"]}, g: {type: "int", enum: 1}}`,
		[]string{"W0302 1:29", "W0302 1:50", "W0302 1:90", "W0302 1:125", "W0302 1:157", "W0302 1:186", "W0302 1:217"}},
	{`params := {a: {type: "int", default: "1"}, b: {type: "int", default: 3, max: 2}, c: {type: "list", of: "int", default: [1, "2"]}, d: {type: "string", default: "c", enum: ["a", "b"]}}`,
		[]string{"W0303 1:38", "W0303 1:70", "W0303 1:120", "W0303 1:160"}},
	{use + "params := {count: {type: \"int\", default: 1}}\np := r.params\np.cuont; r.params.x; p[\"y\"]; p.count", []string{"W0304 4:3", "W0304 4:19", "W0304 4:24"}},
	{"params := {a: {type: \"int\", default: 1}}\nx := params.a", []string{"W0305 2:6"}},

	// Members of other languages; habits_test.go has more.
	{"x := []\nx.push(1)", []string{"W0210 2:3"}},

	// Valid scripts.
	{"", nil},
	{"#!", []string{"W0001 1:1"}},
	{use + "f := func(x) { return x.anything }\nf({})\nf(v.get(\"a\" + 1))\nv.create(r.id, {size_gib: f({})}, f({}))\nv.create(\"a\", r.params...)", nil},
}

func TestDiagnosticsHaveCodeAndPosition(t *testing.T) {
	provoked := make(map[string]bool)
	for _, tt := range wrong {
		r := check.Check(bundleOf(tt.text))
		if diff := cmp.Diff(tt.want, withoutLints(findings(r))); diff != "" {
			t.Errorf("%.300s\n(-want +got):\n%s\n%.2000s", tt.text, diff, r)
		}
		for _, d := range r.Diagnostics {
			provoked[d.Code] = true
			if d.Width < 1 || d.Text != "" && d.Column+d.Width > len(d.Text)+2 {
				t.Errorf("%.100s: the span of %s %d:%d is %d wide on a line of %d", tt.text, d.Code, d.Line, d.Column, d.Width, len(d.Text))
			}
		}
		_, err := interpreter.Compile(bundleOf(tt.text))
		if r.OK() && err != nil {
			t.Errorf("%.100s\npasses its check and does not compile: %v", tt.text, err)
		}
	}
	for _, d := range modules() {
		provoked[d] = true
	}
	for _, tt := range lints {
		for _, d := range check.Check(bundleOf(tt.text)).Diagnostics {
			provoked[d.Code] = true
		}
	}
	for _, info := range diagnostic.Codes {
		if strings.HasPrefix(info.Code, "W05") { // of test files: TestCheckUnderstandsTestFiles
			continue
		}
		// A bundle cannot be large enough for W0007, and the compiler finds no further errors (W0008).
		if !provoked[info.Code] && info.Code != "W0007" && info.Code != "W0008" {
			t.Errorf("no script above provokes %s (%s)", info.Code, info.Title)
		}
	}
}

// withoutLints omits lints; lint_test.go tests them.
func withoutLints(findings []string) (rest []string) {
	for _, s := range findings {
		if !strings.HasPrefix(s, "W04") {
			rest = append(rest, s)
		}
	}
	return rest
}

// modules returns the codes that only a bundle with modules provokes.
func modules() []string {
	r := check.Check(scripts.Bundle{
		Main: scripts.Source{Name: "main.tengo", Text: []byte("a := import(\"a\")\nb := import(\"b\")\nt := import(\"text\")\n")},
		Modules: []scripts.Source{
			{Name: "a", Text: []byte("b := import(\"b\")\nx := func() { export 1 }\nexport y\n")},
			{Name: "b", Text: []byte("a := import(\"a\")\nexport {a: a}\n")},
			{Name: "text", Text: []byte("export 1\n")},
			{Name: "unused", Text: []byte("((((")},
		},
	})
	var codes []string
	for _, d := range r.Diagnostics {
		codes = append(codes, d.Code)
	}
	return codes
}

// A script with too many calls may end earlier, by run.fail in one of its modules.
func TestModulesMayEndAScriptEarly(t *testing.T) {
	r := check.Check(scripts.Bundle{
		Main: scripts.Source{Name: "main.tengo", Text: []byte("stop := import(\"stop\")\nn := import(\"node\")\nstop(n.ping().err)\n" +
			"for i := 0; i < 10001; i++ { n.ping() }\n")},
		Modules: []scripts.Source{{Name: "stop", Text: []byte("r := import(\"run\")\nexport func(wrong) {\n\tif wrong { r.fail(\"no\") }\n}\n")}},
	})
	if !r.OK() {
		t.Error(r)
	}
}

func TestSourceNamesAreLimited(t *testing.T) {
	for _, name := range []string{"", "my script.tengo", "a\nb", strings.Repeat("n", 129), "\x00add" /* as the engine calls its own */} {
		main := scripts.Source{Name: "main.tengo", Text: fmt.Appendf(nil, "import(%q)", name)}
		named := scripts.Source{Name: name, Text: []byte("export 1")}
		for _, b := range []scripts.Bundle{{Main: named}, {Main: main, Modules: []scripts.Source{named}}} {
			if r := check.Check(b); !slices.ContainsFunc(r.Diagnostics, func(d diagnostic.Diagnostic) bool { return d.Code == "W0206" }) {
				t.Errorf("a source that is called %.200q: %s", name, r)
			}
		}
	}
}

func TestCheckFollowsImports(t *testing.T) {
	if diff := cmp.Diff([]string{"W0205", "W0206", "W0207", "W0201"}, sortedLike(modules())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := check.Check(scripts.Bundle{
		Main: scripts.Source{Name: "main.tengo", Text: []byte("a := import(\"lib/a@1\")\nimport(\"lib/b@2\")\nimport(\"enum\")\n")},
		Modules: []scripts.Source{
			{Name: "lib/a@1", Text: []byte("v := import(\"volume\")\nlib := import(\"lib/b@2\")\nexport {wipe: func(n) { return v.delete(n) }}\n")},
			{Name: "lib/b@2", Text: []byte("export 1\n")},
		},
	})
	if !r.OK() || !r.Destructive || !slices.Equal(r.Operations, []string{"volume.delete"}) || !slices.Equal(r.Modules, []string{"lib/a@1", "lib/b@2"}) {
		t.Errorf("%+v", r)
	}
}

func sortedLike(codes []string) []string {
	order := []string{"W0205", "W0206", "W0207", "W0201"}
	slices.SortFunc(codes, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return slices.Compact(codes)
}

// Promise: Plans, scripts and manuals: Every diagnostic has a wrong example that triggers it and a correct one
// without diagnostics.
// How: The test checks the table of `writ explain`.
func TestEveryCodeIsExplained(t *testing.T) {
	seen := make(map[string]bool)
	for _, info := range diagnostic.Codes {
		if seen[info.Code] || info.Title == "" || len(info.Explain) < 40 {
			t.Errorf("%s is listed twice, or lacks a title or explanation", info.Code)
		}
		seen[info.Code] = true
		if found, ok := diagnostic.Lookup(info.Code); !ok || found != info {
			t.Errorf("LookupCode(%s) = %v %v", info.Code, found, ok)
		}
	}
	for _, info := range diagnostic.Codes {
		bundle := bundleOf
		if strings.HasPrefix(info.Code, "W05") {
			bundle = testBundle
		}
		if r := check.Check(bundle(info.Right)); info.Right == "" || len(r.Diagnostics) > 0 {
			t.Errorf("the right example of %s is wrong:\n%s", info.Code, r)
		}
		r := check.Check(bundle(info.Wrong))
		got := make(map[string]bool)
		for _, d := range r.Diagnostics {
			got[d.Code] = true
		}
		if hinted := strings.Contains(info.Wrong, "…"); !hinted && (len(got) != 1 || !got[info.Code]) {
			t.Errorf("the wrong example of %s has %v", info.Code, findings(r))
		}
		for _, text := range []string{info.Wrong, info.Right} {
			if formatted, err := reformat(text); err == nil && formatted != text+"\n" {
				t.Errorf("an example of %s is not formatted:\n%s", info.Code, formatted)
			}
		}
	}
	if _, ok := diagnostic.Lookup("W9999"); ok {
		t.Error("Lookup finds an unknown code")
	}
}

func TestDiagnosticTextsMatchGolden(t *testing.T) {
	r := check.Check(scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte(use + `
m.create("web", {
	cpus: 2, memory: 2048,
	disks: ["ä", v.get("a")], kernel: 5
})
x := machine
`)}})
	warned := check.Check(scripts.Bundle{Main: scripts.Source{Name: "careless.tengo", Text: []byte(use + `
params := {count: {type: "int", default: 2}}
root := v.create("root", {size_gib: 1})
for i := 0; i < 2; i++ {
	h := m.create("web", {cpus: 2, memory_mib: 2048})
	if h {
		n.ping()
	}
}
r.log(root == "root", root.name)
`)}})
	const golden = "testdata/diagnostics.txt"
	got := r.String() + "\n" + warned.String()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCompileReturnsTheFirstError(t *testing.T) {
	_, err := interpreter.Compile(bundleOf("a := 1\nb := c\nd := e\n"))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeScriptInvalid || !strings.HasPrefix(e.Message, `test.tengo:2:6: unknown name "c" (and 1 more)`) {
		t.Errorf("%v", err)
	}
}

func TestTooManyLiteralsAreRefused(t *testing.T) {
	b := scripts.Bundle{Main: scripts.Source{Name: "main.tengo", Text: []byte(many(7, func(i int) string { return fmt.Sprintf("import(\"m%d\")\n", i) }))}}
	for i := range 7 {
		text := many(31_000, func(int) string { return "1\n" })
		b.Modules = append(b.Modules, scripts.Source{Name: fmt.Sprintf("m%d", i), Text: []byte(text)})
	}
	if got := findings(check.Check(b)); !slices.Equal(got, []string{"W0007 1:1"}) {
		t.Errorf("%v, want W0007", got)
	}
	b.Modules = append(b.Modules, b.Modules[0], b.Modules[1])
	if got := findings(check.Check(b)); !slices.Equal(got, []string{"W0002 1:1"}) {
		t.Errorf("%v, want W0002", got)
	}
}

func TestResolveReadsAllImports(t *testing.T) {
	files := map[string]string{
		"own/z@1": `import("own/a@1")`,
		"own/a@1": `import("text"); export 1`,
	}
	find := func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	main := scripts.Source{Name: "main.tengo", Text: []byte(`import("own/z@1"); // import("comment")
s := "import(\"string\")"; import("machine"); import("missing"); import("enum"`)}
	b, err := scripts.Resolve(main, find)
	if err != nil {
		t.Fatal(err)
	}
	want := scripts.Bundle{Main: main, Modules: []scripts.Source{{Name: "own/a@1", Text: []byte(files["own/a@1"])}, {Name: "own/z@1", Text: []byte(files["own/z@1"])}}}
	if diff := cmp.Diff(want, b, cmpopts.IgnoreUnexported(scripts.Bundle{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	broken := errors.New("disk on fire")
	if _, err := scripts.Resolve(main, func(string) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("Resolve = %v", err)
	}
}

// No file of the author replaces a module of the binary.
func TestLibraryCannotBeReplacedByFiles(t *testing.T) {
	find := func(name string) ([]byte, error) {
		if strings.HasPrefix(name, "lib/") || name == "text" {
			t.Errorf("asked for %q", name)
		}
		return []byte(`import("lib/backup@1")`), nil
	}
	main := scripts.Source{Name: "main.tengo", Text: []byte(`import("lib/fleet@1"); import("lib/own"); import("text"); import("site")`)}
	b, err := scripts.Resolve(main, find)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range b.Modules {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"lib/backup@1", "lib/fleet@1", "site"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDigestDistinguishesBundles(t *testing.T) {
	source := func(name, text string) scripts.Source { return scripts.Source{Name: name, Text: []byte(text)} }
	seen := make(map[writ.Digest]int)
	for i, b := range []scripts.Bundle{
		{Main: source("a", "b")}, {Main: source("ab", "")}, {Main: source("a", "c")},
		{Main: source("a", "b"), Modules: []scripts.Source{source("c", "d")}},
		{Main: source("a", "b"), Modules: []scripts.Source{source("c", ""), source("d", "")}},
		{Main: source("a", "b\x01c\x01d")},
	} {
		if before, ok := seen[b.Digest()]; ok {
			t.Errorf("bundles %d and %d have the same digest", before, i)
		}
		seen[b.Digest()] = i
	}
}

func BenchmarkCheck(b *testing.B) {
	text := use + many(100, func(i int) string {
		return fmt.Sprintf("m.create(\"web-%d\", {cpus: 2, memory_mib: 2048, env: {A: \"b\"}}, {retries: 3})\n", i)
	})
	varied := use + many(40, func(i int) string { // an editor checks on each key; 50 ms would be noticeable
		return fmt.Sprintf("f%d := func(n) {\n\tv%d := v.create(\"v-\" + n, {size_gib: %d})\n\treturn m.create(\"m-\" + n, {cpus: 2, memory_mib: 64, disks: [v%d]})\n}\nf%d(%d).err\n", i, i, i+1, i, i, i)
	})
	b.Run("check-200-lines", func(b *testing.B) {
		for b.Loop() {
			if r := check.Check(bundleOf(varied)); !r.OK() {
				b.Fatal(r)
			}
		}
	})
	b.Run("format-200-lines", func(b *testing.B) {
		for b.Loop() {
			if _, err := reformat(varied); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check-100-lines", func(b *testing.B) {
		for b.Loop() {
			if r := check.Check(bundleOf(text)); !r.OK() {
				b.Fatal(r)
			}
		}
	})
	b.Run("compile-100-lines", func(b *testing.B) {
		for b.Loop() {
			if _, err := interpreter.Compile(bundleOf(text)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
