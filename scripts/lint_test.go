package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/scripts"
	"writ/scripts/check"
)

var lints = []struct {
	text string
	want []string
}{
	// Results.
	{"a := [1]\nappend(a, 2)\nlen(a)\na\na == [2]\n-1\n[len(a)]", []string{"W0401 2:1", "W0401 3:1", "W0401 4:1", "W0401 5:1", "W0401 6:1", "W0401 7:1"}},
	{"t := import(\"text\"); t.trim_space(\" a\"); func() {}", []string{"W0401 1:22", "W0401 1:42"}},
	{use + "a := [3]\nsplice(a, 0, 1)\nb := {c: 1}\ndelete(b, \"c\")\nh := v.get(\"a\")\nh.size_gib\nv.get(\"b\").err == undefined\nm.get(\"m\").err ? r.log(1) : n.ping()\nimport(\"enum\")", nil},

	// Names.
	{"a := 1\nb := 2\nb = 3\nc := 4\nc++\nc += 1\n_d := 5\ne := {}\ne.f = 1\ng := func(x, y) { z := 1 }\nfor i, j in [1] {}",
		[]string{"W0402 1:1", "W0402 2:1", "W0402 4:1", "W0402 10:1", "W0402 10:19"}},
	{use + "a := v.create(\"a\", {size_gib: 1})\nm.create(\"m\", {cpus: 1, memory_mib: 64}); n.ping(); r.log(1)", []string{"W0402 2:1"}},
	{use + "r.log(1)\nx := import(\"text\")\nf := func() { y := import(\"hex\") }\nf()", []string{"W0403 1:1", "W0403 1:25", "W0403 1:48", "W0403 3:1", "W0403 4:15"}},
	{use + "m.get(\"a\"); v.get(\"a\"); n.ping(); r.log(1)\nf := func(v) { m := 1; return m + v }\nfor n in [1] { f(n) }\ng := func() { r := import(\"run\"); r.log(1) }\ng()",
		[]string{"W0408 3:11", "W0408 3:16", "W0408 4:5"}},

	// Parameters.
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}, b: {type: \"int\"}, c: {type: \"int\"}, d: {type: \"int\"}}\np := r.params\nr.log(p.a, p[\"b\"], r.params.c)", []string{"W0404 2:66"}},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nr.output(r.params)", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\np := r.params\nfor k, v in p { r.log(k, v) }", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\np := r.params\nr.log(p[\"a\" + \"\"])", nil},
	{"r := import(\"run\")\nv := import(\"volume\")\nparams := {a: {type: \"int\"}}\np := r.params\nv.create(\"v\", {size_gib: p.a})", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\np := r[\"params\"]\nq := p\nimport(\"volume\").create(\"v\", {size_gib: q.a})", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nf := func() { p := (r.params); return p.a }\nimport(\"volume\").create(\"v\", {size_gib: f()})", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nimport(\"volume\").create(\"v\", {size_gib: r.params.a})", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nfor k, v in r.params { import(\"volume\").create(k, {size_gib: v}) }", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nq := undefined\nq = r.params\nimport(\"volume\").create(\"v\", {size_gib: q.a})", nil},
	{"r := import(\"run\")\nparams := {a: {type: \"int\", default: 1}}\np := r.params\n", []string{"W0404 2:12", "W0402 3:1"}},
	{"params := {a: {type: \"int\"}}", []string{"W0404 1:12"}},

	// Maps.
	{use + "a := {size: 1, \"name\": 2}\nr.log(a.sise, a[\"size\"], a.name, a[\"x\"], len(a)); for k, w in a { r.log(k, w) }; v.get(\"v\"); m.get(\"a\"); n.ping()",
		[]string{"W0405 3:9", "W0405 3:36"}},
	{"r := import(\"run\")\na := {}\na.x = 1\nb := {}\nf := func(m) { m.x = 1 }\nf(b)\nc := {}\nd := [c]\nd[0].x = 1\ne := {}\ne = {x: 1}\nr.log(a.x, b.x, c.x, e.x)", nil},

	// Handles.
	{use + "a := v.get(\"a\")\nr.log(a == \"a\", \"a\" != a, a == undefined, a.err == \"FAILED\", v.get(\"b\") == 1); m.get(\"a\"); n.ping()",
		[]string{"W0406 3:7", "W0406 3:17", "W0406 3:27", "W0406 3:43", "W0406 3:62"}},
	{use + "a := v.get(\"a\")\nr.log(a == v.get(\"a\"), a.name == \"a\", a.err == undefined, a.err.code == \"X\"); m.get(\"a\"); n.ping()", nil},
	{use + "a := v.get(\"a\")\nif a { r.log(1) }\nfor !a { r.log((a) && 1, a ? 1 : 2, n.ping() || 3) }\nif a.err { m.get(\"a\") }",
		[]string{"W0407 3:4", "W0407 4:6", "W0407 4:17", "W0407 4:26", "W0407 4:37"}},

	// Calls about related resources.
	{related + "m.stop(web)\nv.restore(d, {snapshot: \"s\"})\nm.start(web)", []string{"W0415 6:1", "W0415 7:1"}},
	{related + "m.stop(web).state\nv.restore(d, {snapshot: \"s\"})\nm.start(web)", []string{"W0415 7:1"}},
	{related + "m.stop(web).state\nv.restore(d, {snapshot: \"s\"}).uid\nm.start(web)", nil},
	{related + "s := m.stop(web)\nr.log(s.name)\nv.snapshot(d, {snapshot: \"s\"})", []string{"W0415 7:1"}},
	{related + "s := m.stop(web)\nr.log(s.ended)\nv.snapshot(\"d\", {snapshot: \"s\"})", nil},
	{related + "m.stop(web)\nv.snapshot(\"d\", {snapshot: \"s\"})\nv.send(d, {backup: \"b\"})\nm.start(\"web\")", []string{"W0415 6:1", "W0415 8:1"}},
	{related + "m.stop(web)\nv.clone(\"e\", {from: d})", []string{"W0415 6:1"}},
	{related + "v.clone(\"e\", {from: d, snapshot: \"s\"})\nv.delete_snapshot(d, {snapshot: \"s\"})\nm.pause(web)", []string{"W0415 6:1"}},
	{related + "v.clone(\"e\", {from: d, snapshot: \"s\"}).uid\nv.delete_snapshot(d, {snapshot: \"s\"})\nm.pause(web)", nil},
	{related + "v.send(d, {backup: \"b\", snapshot: \"s\"})\nv.delete_snapshot(d, {snapshot: \"s\"})\nm.pause(web)", nil},
	{related + "m.delete(web)\nv.delete(d)", []string{"W0415 6:1"}},
	{related + "m.delete(web).uid\nv.delete(d)", nil},
	{related + "m.detach(web, {volume: d})\nv.restore(d, {snapshot: \"s\"})\nm.attach(web, {volume: d})", []string{"W0415 6:1", "W0415 7:1"}},
	{related + "m.detach(web, {volume: d}).state\nback := v.restore(d, {snapshot: \"s\"})\nm.attach(web, {volume: back})", nil},
	{related + "m.stop(web)\nif r.params { r.log(m.get(\"web\").state) }\nv.restore(d, {snapshot: \"s\"})", nil},
	{related + "if r.id {\n\tfor i in [1] { r.log(i) }\n\tm.detach(web, {volume: d})\n}\nv.restore(d, {snapshot: \"s\"})", nil},
	{related + "m.stop(web)\nf := func(h) { return h.state }\nf(web)\nv.restore(d, {snapshot: \"s\"})", nil},
	{related + "m.stop(web)\nv.restore(\"other\", {snapshot: \"s\"})\nm.start(web)", nil},
	{related + "v.snapshot(d, {snapshot: \"s\"})\nm.stop(web)\nm.start(web)", nil},
	{related + "m.start(web)\nm.stop(web)\nv.resize(d, {size_gib: 2})", nil},
	{use + "m.stop(\"web\")\nv.restore(\"d\", {snapshot: \"s\"})\nm.start(\"web\"); n.ping(); r.log(1)", []string{"W0415 3:1", "W0415 4:1"}},
	{use + "for i in [1, 2] {\n\tm.stop(\"web-\" + i)\n\tv.restore(\"d-\" + i, {snapshot: \"s\"})\n\tm.start(\"web-\" + i)\n}\nn.ping(); r.log(1)", []string{"W0415 4:2", "W0415 5:2"}},
	{use + "f := func(web, d) {\n\tm.stop(web)\n\tif d { v.restore(d, {snapshot: \"s\"}) }\n\tm.start(web)\n}\nf(\"a\", \"b\"); n.ping(); r.log(1)", nil},
	{use + "m.stop(\"web\")\nv.restore(\"d\", {snapshot: \"s\"})\nm.start(\"db\"); n.ping(); r.log(1)", nil},

	// Programs that end.
	{"c := import(\"container\")\nc.run(\"migrate\", {image: \"a\"})\nc.create(\"web\", {image: \"a\"})", []string{"W0415 3:1"}},
	{"c := import(\"container\")\nc.run(\"migrate\", {image: \"a\"})\nc.start(\"web\")\nc.run(\"more\", {image: \"a\"})", []string{"W0415 3:1"}},
	{"c := import(\"container\")\nc.run(\"migrate\", {image: \"a\"}).exit_code\nc.create(\"web\", {image: \"a\"})", nil},
	{"c := import(\"container\")\nc.create(\"web\", {image: \"a\"})\nc.run(\"migrate\", {image: \"a\"})\nc.run(\"more\", {image: \"a\"})", nil},
	{"c := import(\"container\")\nv := import(\"volume\")\nd := v.create(\"d\", {size_gib: 1})\nc.run(\"load\", {image: \"a\", volumes: [{volume: d, path: \"/d\"}]})\nv.snapshot(d, {snapshot: \"s\"})", []string{"W0415 5:1"}},
	{"c := import(\"container\")\nfor i := 0; i < 3; i++ { c.run(\"job\", {image: \"a\"}) }", nil},

	// Unreachable statements.
	{"r := import(\"run\")\nf := func(x) {\n\tif x { return 1; r.log(1); r.log(2) }\n\tfor { break; r.log(3) }\n\tfor { continue\n r.log(4) }\n\tr.fail(\"no\")\n\t{}\n}\nf(1)\nr.fail(\"x\")",
		[]string{"W0409 3:19", "W0409 4:15", "W0409 6:2", "W0409 8:2"}},

	// Loops.
	{"fs := []\nfor i := 0; i < 2; i++ { j := i; fs = append(fs, func() { return i + i + j }) }\nfor k in [1] { fs = append(fs, [func() { return k }]) }\nfor x in [1] { fs[0] = func() { c := 1; return c + x } }\nfs[0]()",
		[]string{"W0410 2:66", "W0410 2:74", "W0410 3:49", "W0410 4:52"}},
	{"g := func() {\n\tfs := []\n\tfor i := 0; i < 2; i++ { j := i; fs = append(fs, func() { return i + j }) }\n\treturn fs\n}\ng()", []string{"W0410 3:67"}},
	{"e := import(\"enum\")\nfs := []\nfor i in [1] {\n\te.each([1], func(k, v) { fs = append(fs, k + v + i) })\n\tf := func() { return i }\n\tf()\n\tfs = append(fs, func(i) { return func() { return i } }(i))\n}", []string{"W0416 1:1"}},
	{use + "for i := 0; i < 3; i++ { v.create(\"a\", {size_gib: 1}); m.create(\"a\" + i, {cpus: 1, memory_mib: 64}); n.ping(); v.get(\"a\") }\nr.log(1)", []string{"W0411 2:35"}},
	{use + "for i := 0; i < 3; i++ { if v.create(\"a\", {size_gib: i}).err == undefined { break } }\nfor { f := func() { v.create(\"a\", {size_gib: 1}) }; f(); n.ping(); m.get(\"m\"); r.log(1) }", nil},

	// Scripts without an effect.
	{"", []string{"W0416 1:1"}},
	{"// v := import(\"volume\")\n// v.create(\"d\", {size_gib: 1})\n", []string{"W0416 1:1"}},
	{"r := import(\"run\")\nparams := {a: {type: \"int\", default: 1}}\nif r.params.a > 1 { _x := 1 }", []string{"W0416 1:1"}},
	{"import(\"run\").log(1)", nil},
	{"r := import(\"run\")\nf := func() { r.fail(\"x\") }\nif 1 + 1 == 3 { f() }", nil},
	{"import(\"run\").output({a: 1})", nil},

	// Texts with the syntax of variables of other languages.
	{"r := import(\"run\")\nx := 1\nr.log(x, \"web-${x}\", `a${r.id}b`, \"${HOME} ${x}\", \"$x {x} ${y} ${len} ${1}\")",
		[]string{"W0417 3:15", "W0417 3:24", "W0417 3:44"}},
	{"r := import(\"run\")\nparams := {a: {type: \"int\"}}\nr.log(r.params.a, \"web-${a}\", \"web-${r.params.a}\", \"${b}\")", []string{"W0417 3:24", "W0417 3:36"}},
	{"r := import(\"run\")\nf := func() { return \"${x}\" }\nx := f()\nr.log(x)", nil},

	// Misleading text; hidden_test.go has more.
	{"// a\u202eb\n\u0430dmin := 1\n\u0430dmin += 1\nprint := func(x) { return x }\nr := import(\"run\")\nr.log(print(\u0430dmin))", []string{"W0413 1:5", "W0414 2:1", "W0414 3:1", "W0414 6:13"}},
}

// related defines a machine web with a volume d. The uses of n and r keep the imports used.
const related = use + "d := v.create(\"d\", {size_gib: 1})\nweb := m.create(\"web\", {cpus: 1, memory_mib: 64, disks: [d]})\nn.ping(); r.log(1)\n"

func TestLintsFindLikelyMistakes(t *testing.T) {
	for _, tt := range lints {
		r := check.Check(bundleOf(tt.text))
		if diff := cmp.Diff(tt.want, findings(r)); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s\n%s", tt.text, diff, r)
		}
		if !r.OK() || r.Err() != nil {
			t.Errorf("%s\na lint stops the script: %v", tt.text, r.Err())
		}
	}
}

func TestErrorsSuppressLints(t *testing.T) {
	if got := findings(check.Check(bundleOf("count := 1\nx := conut\n"))); !slices.Equal(got, []string{"W0201 2:6"}) {
		t.Errorf("%v", got)
	}
}

func TestLintsLookIntoModules(t *testing.T) {
	r := check.Check(scripts.Bundle{
		Main: scripts.Source{Name: "main.tengo", Text: []byte("setup := import(\"lib/setup@1\")\ne := import(\"enum\")\nparams := {a: {type: \"int\", default: 1}}\ne.all([], func(k, v) { return k + v })\n")},
		Modules: []scripts.Source{
			{Name: "lib/setup@1", Text: []byte("r := import(\"run\")\nx := 1\nexport r.params.a\nr.log(2)\n")},
		},
	})
	var got []string
	for _, d := range r.Diagnostics {
		got = append(got, d.Code+" "+d.Position())
	}
	if diff := cmp.Diff([]string{"W0402 lib/setup@1:2:1", "W0409 lib/setup@1:4:1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The engine behaves as the lints claim.
func TestLintedTrapsAreReal(t *testing.T) {
	for text, want := range map[string]any{
		"fs := []; for i := 0; i < 2; i++ { fs = append(fs, func() { return i }) }; v := fs[0]()":                          int64(2),
		"fs := []; for i in [0, 1] { fs = append(fs, func() { return i }) }; v := fs[0]()":                                 int64(1),
		"fs := []; for i in [0, 1] { j := i; fs = append(fs, func() { return j }) }; v := fs[0]()":                         int64(1),
		"v := func() { fs := []; for i := 0; i < 2; i++ { fs = append(fs, func() { return i }) }; return fs[0]() }()":      int64(2),
		"v := func() { fs := []; for i in [0, 1] { j := i; fs = append(fs, func() { return i + j }) }; return fs[0]() }()": int64(0),
		"fs := []; for i in [0, 1] { fs = append(fs, func(i) { return func() { return i } }(i)) }; v := fs[0]()":           int64(0),
		"a := append([1], 2); b := append(a, 3); append(a, 4); v := b[2]":                                                  int64(3),
		"h := import(\"volume\").get(\"a\"); v := h == \"a\" || h == undefined || !h":                                      false,
		"a := {}; v := a.b == undefined": true,
	} {
		text = strings.Join([]string{"run := import(\"run\")", text, "run.output({v: v})"}, "\n")
		o, _ := play(t, compile(t, bundleOf(text)), scripts.Inputs{Allow: []string{"volume.get"}, MaxCalls: 100}, nil)
		if o.Status != scripts.Completed || o.Output["v"] != want {
			t.Errorf("%s\n%+v, want %v", text, o, want)
		}
	}
}

// A name with `${x}` is an error, and its hint shows the sum as well.
func TestNameWithInterpolationIsShownAsSum(t *testing.T) {
	r := check.Check(bundleOf("volume := import(\"volume\")\nx := \"a\"\nvolume.create(\"web-${x}\", {size_gib: 1})"))
	const want = `a text contains no variables: write "web-" + x`
	if len(r.Diagnostics) == 0 || r.Diagnostics[0].Help != want {
		t.Errorf("%s\nwant %s", r, want)
	}
}

func TestInterpolationIsShownAsSum(t *testing.T) {
	for text, want := range map[string]string{
		`"web-${x}"`:                            `write "web-" + x`,
		"`web-${x}`":                            "write `web-` + x",
		`"${x}"`:                                `write "" + x`,
		`"${x}${y}-b"`:                          `write "" + x + y + "-b"`,
		`"${HOME}/${x}/${n}"`:                   `write "${HOME}/" + x + "/" + run.params.n`,
		`"` + strings.Repeat("a", 99) + `${x}"`: `write "…" + x + "…"`,
	} {
		r := check.Check(bundleOf("run := import(\"run\")\nparams := {n: {type: \"int\"}}\nx := run.params.n\ny := 2\nrun.log(y, " + text + ")"))
		if len(r.Diagnostics) != 1 || r.Diagnostics[0].Help != want {
			t.Errorf("%s: %s\nwant %s", text, r, want)
		}
	}
}
