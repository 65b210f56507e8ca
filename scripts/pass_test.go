package scripts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
	"writ/scripts/check"
)

func TestFieldReadWaitsButHandleArgumentDoesNot(t *testing.T) {
	o := first(t, imports+`
root := volume.create("root", {size_gib: 1})
box := machine.create("box", {cpus: 1, memory_mib: 64, disks: [root]}, {retries: 0, timeout: "90s", on_loss: "wait", node: "n1", labels: {a: "b"}, idempotent: true, adopt: true})
machine.stop(box)
run.log("still here", box)
run.output({address: box.address})
run.log("not reached")
`)
	zero := 0
	want := scripts.Outcome{
		Status: scripts.Waiting,
		Calls: []scripts.NewCall{
			{Seq: 1, Operation: "volume.create", Name: "root", Args: map[string]any{"size_gib": int64(1)}, Position: "test.tengo:5:9"},
			{Seq: 2, Operation: "machine.create", Name: "box", After: []int{1}, Position: "test.tengo:6:8",
				Args:    map[string]any{"cpus": int64(1), "memory_mib": int64(64), "disks": []any{map[string]any{"ref": int64(1)}}},
				Options: writ.CallOptions{Retries: &zero, Timeout: 90_000, OnLoss: "wait", Node: "n1", Labels: map[string]string{"a": "b"}, Idempotent: true, Adopt: true}},
			{Seq: 3, Operation: "machine.stop", Name: "box", After: []int{2}, Args: map[string]any{"grace_seconds": int64(30)}, Position: "test.tengo:7:1"},
		},
		Logs:    []string{"still here <machine box>"},
		Waiting: []int{2},
	}
	for i := range o.Calls {
		if o.Calls[i].Hash.IsZero() {
			t.Errorf("call %d has no hash", i+1)
		}
		o.Calls[i].Hash = writ.Digest{}
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCallHasThePositionOfTheLastRead(t *testing.T) {
	o, w := play(t, compile(t, bundleOf(imports+`
a := volume.create("a", {size_gib: 1})
b := volume.create("b", {size_gib: 1})
run.log(a.uid, a.path, b.name)
c := volume.create("c", {size_gib: 1})
run.log(a.size_gib)
d := volume.create("d", {size_gib: 1})
for v in [b, c] {
	run.log(v.uid)
	volume.create("of-" + v.name, {size_gib: 1})
}
`)), everything(), nil)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o)
	}
	var lines []string
	for _, c := range w.calls {
		line, _, _ := strings.Cut(strings.TrimPrefix(c.Read, "test.tengo:"), ":")
		lines = append(lines, line)
	}
	if want := []string{"", "", "7", "7", "12", "12"}; !slices.Equal(lines, want) {
		t.Errorf("before the calls was read in lines %q, want %q", lines, want)
	}
}

// outputs runs a script against the fixture to its end and returns its output "v".
func outputs(t *testing.T, text string) any {
	t.Helper()
	in := everything()
	in.Params = map[string]any{"count": int64(2), "zones": []any{"a", "b"}}
	o, _ := play(t, compile(t, bundleOf(imports+text)), in, nil)
	if o.Status != scripts.Completed {
		t.Fatalf("%s\n%s: %+v", text, o.Status, o.Failure)
	}
	return o.Output["v"]
}

func TestScriptsComputeExpectedValues(t *testing.T) {
	for text, want := range map[string]any{
		// The run.
		`run.output({v: run.id + run.project + run.datacenter})`:                            "abcshophome",
		`run.output({v: run.params.count + len(run.params.zones)})`:                         int64(4),
		`s := ""; for k, v in run.params { s += k }; run.output({v: s})`:                    "countzones",
		`run.output({v: string(run.params)})`:                                               `{count: 2, zones: ["a", "b"]}`,
		`run.output({a: 1, v: 1}); run.output({v: 2})`:                                      int64(2),
		`times := import("times"); run.output({v: times.time_year(run.now())})`:             int64(2023),
		`times := import("times"); a := run.now(); b := run.now(); run.output({v: a == b})`: true,

		// Handles.
		`h := volume.create("a", {size_gib: 1}); run.output({v: "" + h + (h ? "!" : "?")})`:               "<volume a>!",
		`h := node.ping(); run.output({v: string([h]) + type_name(h)})`:                                   "[<node.ping 1>]handle",
		`a := node.ping(); b := node.ping(); run.output({v: [a == a, a == b, a != b, a == copy(a)]})`:     []any{true, false, true, true},
		`h := volume.create("a", {size_gib: 3}); run.output({v: [h.name, h.size_gib, h["err"]]})`:         []any{"a", int64(3), nil},
		`h := volume.create("fail-a", {size_gib: 3}); run.output({v: h.err.code + h.err.message})`:        "INJECTEDtold to fail",
		`h := volume.create("fail-a", {size_gib: 3}); run.output({v: h.err.retryable})`:                   true,
		`h := volume.get("a"); run.output({v: h.path})`:                                                   "path-a-1",
		`h := volume.create("a", {size_gib: 1, image: undefined}); run.output({v: h.snapshots + [1]})`:    []any{int64(1)},
		`mk := func(v, n) { return v(n, {size_gib: 1}) }; run.output({v: mk(volume.create, "q").name})`:   "q",
		`run.output({v: import("volume").create("w", {size_gib: 1}).size_gib})`:                           int64(1),
		`hs := []; for n in ["a", "b"] { hs = append(hs, volume.get(n)) }; run.output({v: hs[1].path})`:   "path-b-2",
		`h := machine.create("m", {cpus: 1, memory_mib: 64}); machine.stop(h); run.output({v: h.cpus})`:   int64(1),
		`h := volume.create("fail-a", {size_gib: 3}); if h.err { run.output({v: 1}) } else { h.path }`:    int64(1),
		`h := volume.create("a", {size_gib: 3}); if is_undefined(h.err) { run.output({v: h.size_gib}) }`:  int64(3),
		`x := undefined; x = volume.create("a", {size_gib: 1}); run.output({v: x.err == undefined})`:      true,
		`f := func() { return volume.create("a", {size_gib: 1}) }; run.output({v: f().name + f().name})`:  "aa",
		`h := volume.create("a", {size_gib: 1}); g := func() { return h.size_gib }; run.output({v: g()})`: int64(1),

		// Behaviour that Tengo leaves to chance or to the host.
		`m := {b: 1, a: 2, c: {z: 1, y: 2}}; run.output({v: string(m) + m})`:                                                                                         `{a: 2, b: 1, c: {y: 2, z: 1}}{a: 2, b: 1, c: {y: 2, z: 1}}`,
		`m := {b: 1, a: 2, c: 3}; s := ""; for k, v in m { s += k + v }; run.output({v: s})`:                                                                         "a2b1c3",
		`m := immutable({b: 1, a: 2}); s := ""; for k in m { s += k }; run.output({v: s})`:                                                                           "21",
		`m := {b: 1, a: 2, c: 3}; s := ""; for k, v in m { delete(m, "b"); s += k }; run.output({v: s})`:                                                             "ac",
		`run.output({v: format("%v %s %d %T", {b: 1, a: "x"}, "s", 3, {})})`:                                                                                         `{a: "x", b: 1} s 3 map`,
		`json := import("json"); run.output({v: string(json.encode({b: [1, 2.5, "<"], a: undefined}))})`:                                                             `{"a":null,"b":[1,2.5,"<"]}`,
		`json := import("json"); m := json.decode("{\"b\": [1], \"a\": 2.5}"); run.output({v: string(m)})`:                                                           `{a: 2.5, b: [1]}`,
		`json := import("json"); run.output({v: is_error(json.decode("{"))})`:                                                                                        true,
		`enum := import("enum"); run.output({v: enum.map({b: 1, a: 2}, func(k, v) { return k + v })})`:                                                               []any{"a2", "b1"},
		`a := [1]; b := append(a, 2); c := append(a, 3); run.output({v: [a, b, c]})`:                                                                                 []any{[]any{int64(1)}, []any{int64(1), int64(2)}, []any{int64(1), int64(3)}},
		`a := [1, 2, 3]; b := a[0:2]; splice(a, 1, 1, 9, 8); run.output({v: [a, b]})`:                                                                                []any{[]any{int64(1), int64(9), int64(8), int64(3)}, []any{int64(1), int64(2)}},
		`run.output({v: string(time(0))})`:                                                                                                                           "1970-01-01 00:00:00 +0000 UTC",
		`times := import("times"); run.output({v: times.time_hour(0)})`:                                                                                              int64(0),
		`times := import("times"); t := times.parse(times.format_rfc3339, "2026-11-21T10:00:00+02:00"); run.output({v: times.time_format(t, times.format_rfc3339)})`: "2026-11-21T08:00:00Z",
		`times := import("times"); run.output({v: string(times.date(2026, 2, 30))})`:                                                                                 "2026-03-02 00:00:00 +0000 UTC",

		// Replaced operators keep their meaning.
		`x := 7; x /= 2; x += 1.5; x -= 0.5; run.output({v: string(x)})`:                                             "4",
		`x := 7; y := 3; run.output({v: [x / y, x % y, x + y, x == y, x != y]})`:                                     []any{int64(2), int64(1), int64(10), false, true},
		`m := {n: 1, l: [1, 2]}; m.n += 2; m["n"] += m.n; m.l[m.n - 5] += 5; run.output({v: m})`:                     map[string]any{"n": int64(6), "l": []any{int64(1), int64(7)}},
		`run.output({v: [[1, {a: 2}] == [1, {a: 2}], {a: 1} == {b: 1}, [] != [0], "a" == "a"]})`:                     []any{true, false, true, true},
		`i := 0; f := func() { i++; return 0 }; a := [1]; a[f()] += 1; run.output({v: [a, i]})`:                      []any{[]any{int64(2)}, int64(2)},
		`a := bytes("ab") + bytes("c"); run.output({v: [string(a), len(a), len(bytes(3))]})`:                         []any{"abc", int64(3), int64(3)},
		`run.output({v: [range(0, 5, 2), range(3, 0), range(1, 1)]})`:                                                []any{[]any{int64(0), int64(2), int64(4)}, []any{int64(3), int64(2), int64(1)}, []any{}},
		`f := func(a, ...b) { return a + len(b) }; run.output({v: f([1, 2, 3]...)})`:                                 int64(3),
		`a := {b: [1]}; c := copy(a); c.b[0] = 2; run.output({v: [a.b[0], c.b[0]]})`:                                 []any{int64(1), int64(2)},
		`run.output({v: [string(1), string(undefined, "x"), string([1, "a"]), "" + true, "a" + 'b']})`:               []any{"1", "x", `[1, "a"]`, "true", "ab"},
		`f := func(n) { return n < 2 ? n : f(n-1) + f(n-2) }; run.output({v: f(15)})`:                                int64(610),
		`s := 0; for i := 0; i < 10; i++ { if i == 3 { continue }; if i > 6 { break }; s += i }; run.output({v: s})`: int64(18),
		`text := import("text"); run.output({v: text.join(text.split("b,a", ","), "-") + text.to_upper("x")})`:       "b-aX",
		`text := import("text"); run.output({v: text.re_replace("a(.)", "abac", "<$1>")})`:                           "<b><c>",
		`text := import("text"); run.output({v: text.re_find("(a)|(b)", "b")[0][2].text})`:                           "b",
		`math := import("math"); run.output({v: int(math.pow(2, 10))})`:                                              int64(1024),
		`base64 := import("base64"); hex := import("hex"); run.output({v: base64.encode("ab") + hex.encode("ab")})`:  "YWI=6162",
	} {
		if diff := cmp.Diff(want, outputs(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestFailuresSayWhatAndWhere(t *testing.T) {
	const line = 5 // of the text below the imports
	for text, want := range map[string]struct {
		code     writ.Code
		column   int
		contains string
	}{
		`a := 0; b := 1 / a`:                                                    {writ.CodeScriptFailed, 14, "division by zero"},
		`a := [1]; a.b.c = 1`:                                                   {writ.CodeScriptFailed, 11, "invalid index type"},
		`x := {}; x.y()`:                                                        {writ.CodeScriptFailed, 10, "not callable: undefined"},
		`run.fail("no more")`:                                                   {writ.CodeScriptFailed, 1, "no more"},
		`volume.create("a", {size_gib: 1}).sise_gib`:                            {writ.CodeScriptFailed, 35, `did you mean "size_gib"?`},
		`volume.create("fail-a", {size_gib: 1}).path`:                           {writ.CodeInjected, 40, "volume.create fail-a failed: told to fail"},
		`volume.create("a", {size_gib: "1"})`:                                   {writ.CodeArgumentsInvalid, 1, "size_gib must be a whole number of GiB such as 10; got \"1\""},
		`volume.create("a", {size_gib: 1.0})`:                                   {writ.CodeScriptFailed, 1, "the spec.size_gib is a float"},
		`volume.create("A", {size_gib: 1})`:                                     {writ.CodeArgumentsInvalid, 1, `"A" is not a name`},
		`volume.create("a")`:                                                    {writ.CodeScriptFailed, 1, "takes a name, a spec and options, not 1"},
		`volume.create("a", {size_gib: 1}, {retry: 1})`:                         {writ.CodeArgumentsInvalid, 1, `unknown option "retry"`},
		`volume.create("a", {size_gib: 1}, {node: "N 1"})`:                      {writ.CodeArgumentsInvalid, 1, `node must be the name or id of a node such as "n1", not "N 1"`},
		`volume.create("a", {size_gib: 1}, {labels: {Disk: "ssd"}})`:            {writ.CodeArgumentsInvalid, 1, "labels.Disk must be a valid label name"},
		`volume.create("a", {size_gib: 1}, {labels: {disk: "fast ssd"}})`:       {writ.CodeArgumentsInvalid, 1, `labels.disk must be a valid label value, such as ssd`},
		`volume.create("a", {size_gib: 1}, {timeout: "soon"})`:                  {writ.CodeArgumentsInvalid, 1, "timeout must be a duration"},
		`volume.create("a", {size_gib: 1, image: node.ping()})`:                 {writ.CodeArgumentsInvalid, 1, "not to a node"},
		`machine.create("a", {cpus: 1, memory_mib: 64, env: {A: node.ping()}})`: {writ.CodeArgumentsInvalid, 1, "read one of its fields"},
		`machine.create("a", {cpus: 1, memory_mib: 64, disks: [{ref: 1}]})`:     {writ.CodeArgumentsInvalid, 1, "must be a handle to a volume, not a map"},
		`machine.stop(volume.get("a"))`:                                         {writ.CodeScriptFailed, 1, "takes the name of a machine or a handle to one, not <volume a>"},
		`f := volume; f.destroy("a")`:                                           {writ.CodeScriptFailed, 16, `module volume has no "destroy"`},
		`run.params.cuont`:                                                      {writ.CodeScriptFailed, 12, `unknown parameter "cuont"; did you mean "count"?`},
		`run.params.count = 3`:                                                  {writ.CodeScriptFailed, 1, "not index-assignable"},
		`run.output({a: node.ping()})`:                                          {writ.CodeScriptFailed, 1, "the output.a is <node.ping 1>, a handle"},
		`run.output({a: "\xff"})`:                                               {writ.CodeScriptFailed, 1, "the output.a is not valid UTF-8"},
		`a := [0]; a[0] = a; run.output({a: a})`:                                {writ.CodeScriptFailed, 21, "contains itself"},
		`import("text").repeat("x", -1)`:                                        {writ.CodeScriptFailed, 1, "does not take these arguments"},
		`import("text").trim("x")`:                                              {writ.CodeScriptFailed, 1, "text.trim takes 2 arguments, not 1"},
		`import("json").encode(node.ping())`:                                    {writ.CodeScriptFailed, 1, "json cannot write <node.ping 1>"},
		`f := func(x) { return 1 + f(x + 1) }; f(0)`:                            {writ.CodeScriptFailed, 29, "nested too deeply"},
		`range(0, 1, 0)`:                                                        {writ.CodeScriptFailed, 1, "range step must be greater than 0"},
		`m := {}; m[[1]] = 1`:                                                   {writ.CodeScriptFailed, 12, "invalid index type: array"},
		`a := [1, 2]; splice(a, 5)`:                                             {writ.CodeScriptFailed, 14, "index out of bounds"},
	} {
		in := everything()
		in.Params = map[string]any{"count": int64(2)}
		o, _ := play(t, compile(t, bundleOf(imports+"\n"+text)), in, nil)
		if o.Status != scripts.Failed {
			t.Errorf("%s\nis %s", text, o.Status)
			continue
		}
		position := fmt.Sprintf("test.tengo:%d:%d", line, want.column)
		if o.Failure.Code != want.code || o.Failure.Position != position || !strings.Contains(o.Failure.Message, want.contains) {
			t.Errorf("%s\nfails with %s at %s: %s\nwant %s at %s: …%s…", text, o.Failure.Code, o.Failure.Position, o.Failure.Message, want.code, position, want.contains)
		}
	}
}

func TestMissingMemberHasAHint(t *testing.T) {
	for text, want := range map[string][2]string{
		`f := func(x) { x.push(1) }; f([])`:      {`a list has no "push": invalid index type: string`, "write list = append(list, …)"},
		`f := func(x) { return x.len() }; f([])`: {`a list has no "len": invalid index type: string`, "write len(list)"},
		`f := func(x) { x.to_upper() }; f("a")`:  {`a text has no "to_upper": invalid index type: string`, `write text.to_upper(s), with text := import("text") above`},
		`f := func(x) { x.to_string() }; f(1)`:   {`a number has no "to_string": not indexable: string`, "write string(n)"},
		`f := func(x) { return x % 1 }; f("%d")`: {"invalid operation: string % int", "write format(text, …)"},
		`f := func(x) { return x - 1 }; f("%d")`: {"invalid operation: string - int", ""},
		`f := func(x, i) { x[i] }; f([1], true)`: {"invalid index type: bool", ""},
		`f := func(x) { return x * "a" }; f(2)`:  {"invalid operation: int * string", ""},
	} {
		o, _ := play(t, compile(t, bundleOf(text)), everything(), nil)
		if o.Status != scripts.Failed || o.Failure.Code != writ.CodeScriptFailed || o.Failure.Message != want[0] || o.Failure.Hint != want[1] {
			t.Errorf("%s\n%s %+v\nwant %q", text, o.Status, o.Failure, want)
		}
	}
}

func TestFailureHasATrace(t *testing.T) {
	bundle := scripts.Bundle{
		Main:    scripts.Source{Name: "main.tengo", Text: []byte("lib := import(\"lib\")\nf := func() {\n\treturn lib.half(\"x\")\n}\nf()\n")},
		Modules: []scripts.Source{{Name: "lib", Text: []byte("node := import(\"node\")\n\nexport {\n\thalf: func(x) { node.ping(); return x / 2 }\n}\n")}},
	}
	in := everything()
	o, err := compile(t, bundle).Pass(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &writ.Failure{
		Error:    writ.Error{Code: writ.CodeScriptFailed, Message: "invalid operation: string / int"},
		Position: "lib:4:38", Trace: []string{"main.tengo:3:9", "main.tengo:5:1"},
	}
	if diff := cmp.Diff(want, o.Failure); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(o.Calls) != 1 || o.Calls[0].Position != "lib:4:18" {
		t.Errorf("calls: %+v, want one at lib:4:18", o.Calls)
	}
}

// A panic of the VM and a call of a Go function have no own position. The position from the VM's private fields must
// equal the position of a script error.
func TestPositionsAreReadFromTheVM(t *testing.T) {
	o := first(t, imports+"\nf := func(x) {\n\tif x == 0 {\n\t\tnode.ping()\n\t\treturn [][0:\"\"]\n\t}\n\treturn 1 + f(x-1)\n}\nf(2)")
	if o.Failure == nil || len(o.Calls) != 1 {
		t.Fatalf("%+v", o)
	}
	if got, want := o.Calls[0].Position, "test.tengo:7:3"; got != want {
		t.Errorf("the call is at %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"test.tengo:10:13", "test.tengo:10:13", "test.tengo:12:1"}, o.Failure.Trace); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	deep := first(t, "f := func(x) { return 1 + f(x + 1) }\nf(0)")
	if deep.Failure == nil || deep.Failure.Position != "test.tengo:1:29" || len(deep.Failure.Trace) != 31 {
		t.Errorf("a stack overflow is at %+v", deep.Failure)
	}
}

func TestJournalAnswersOnlyTheSameCalls(t *testing.T) {
	p := compile(t, bundleOf(imports+`volume.create("a", {size_gib: 1}); volume.create("b", {size_gib: 1})`))
	o, err := p.Pass(t.Context(), everything(), nil)
	if err != nil || len(o.Calls) != 2 {
		t.Fatal(o, err)
	}
	entry := func(seq int, hash writ.Digest) scripts.Entry {
		return scripts.Entry{Seq: seq, Hash: hash, State: scripts.EntryOpen}
	}
	a, b := o.Calls[0].Hash, o.Calls[1].Hash
	for name, journal := range map[string][]scripts.Entry{
		"other arguments": {entry(1, a), entry(2, writ.Digest{1})},
		"other order":     {entry(1, b), entry(2, a)},
		"more calls":      {entry(1, a), entry(2, b), entry(3, b)},
		"a gap":           {entry(2, b)},
		"one call twice":  {entry(1, a), entry(1, a)},
	} {
		o, err := p.Pass(t.Context(), everything(), journal)
		if err != nil || o.Status != scripts.Failed || o.Failure.Code != writ.CodeNonDeterminism {
			t.Errorf("%s: %+v %v, want %s", name, o, err, writ.CodeNonDeterminism)
		}
	}
	if o, err := p.Pass(t.Context(), everything(), []scripts.Entry{entry(2, b), entry(1, a)}); err != nil || o.Status != scripts.Completed {
		t.Errorf("a journal in another order: %+v %v", o, err)
	}
}

func TestNewRulesDoNotBreakJournaledCalls(t *testing.T) {
	p := compile(t, bundleOf(imports+`volume.create("Not A Name", {size_gib: -1, unknown: true}, {nonsense: 1})`))
	// Journaled by an older binary: the hash covers the arguments in the script, independent of the current rules.
	said, err := cbor.Marshal([]any{"volume.create", "Not A Name", map[string]any{"size_gib": int64(-1), "unknown": true}, map[string]any{"nonsense": int64(1)}})
	if err != nil {
		t.Fatal(err)
	}
	hash := writ.DigestOf(said)
	o, err := p.Pass(t.Context(), scripts.Inputs{}, []scripts.Entry{{Seq: 1, Hash: hash, State: scripts.EntryOpen}})
	if err != nil || o.Status != scripts.Completed {
		t.Errorf("replay: %+v %+v %v", o, o.Failure, err)
	}
	if o, err = p.Pass(t.Context(), everything(), nil); err != nil || o.Status != scripts.Failed {
		t.Errorf("live: %+v %v", o, err)
	}
}

// Promise: Submissions: A script performs only the operations that its signed header allows.
// How: Operations outside of `allow` are refused.
func TestUnsignedCallsAreRejected(t *testing.T) {
	p := compile(t, bundleOf(imports+`volume.get("a"); volume.delete("a")`))
	for _, tt := range []struct {
		in    scripts.Inputs
		code  writ.Code
		calls int
	}{
		{scripts.Inputs{}, writ.CodeOperationNotAllowed, 0},
		{scripts.Inputs{Allow: []string{"volume.get"}, MaxCalls: 9}, writ.CodeOperationNotAllowed, 1},
		{scripts.Inputs{Allow: []string{"volume.get", "volume.delete"}, MaxCalls: 1}, writ.CodeScriptLimit, 1},
	} {
		o, err := p.Pass(t.Context(), tt.in, nil)
		if err != nil || o.Status != scripts.Failed || o.Failure.Code != tt.code || len(o.Calls) != tt.calls {
			t.Errorf("%+v: %+v %v, want %s after %d calls", tt.in, o, err, tt.code, tt.calls)
		} else if tt.code == writ.CodeScriptLimit && !strings.Contains(o.Failure.Hint, "--max-calls") {
			t.Errorf("the hint does not name the flag: %s", o.Failure.Hint)
		}
	}
}

func TestFailureOfACallNamesIt(t *testing.T) {
	o, _ := play(t, compile(t, bundleOf(imports+`volume.get("a"); f := volume.get("fail-x"); f.path`)), everything(), nil)
	if o.Status != scripts.Failed || o.Failure.Seq != 2 || len(o.Handled) != 0 {
		t.Errorf("%+v %+v", o, o.Failure)
	}
	o, _ = play(t, compile(t, bundleOf(imports+`a := volume.get("a"); f := volume.get("fail-x"); g := volume.get("fail-y"); f.err; a.err; f.err`)), everything(), nil)
	if o.Status != scripts.Completed || !slices.Equal(o.Handled, []int{2}) {
		t.Errorf("%s, handled %v, want completed, [2]", o.Status, o.Handled)
	}
}

func TestScriptOutputIsSafeForTerminals(t *testing.T) {
	o := first(t, `run := import("run"); run.log("a\x1b[2J\tb\nc\xff"); run.fail("\u009b31m")`)
	if diff := cmp.Diff([]string{"a\uFFFD[2J\tb", "c\uFFFD"}, o.Logs); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if o.Failure.Message != "\uFFFD31m" {
		t.Errorf("message %q", o.Failure.Message)
	}
	if text := check.Check(bundleOf("a := \"\x1b[2J\"; b := c \"\x1b\"")).String(); strings.ContainsRune(text, 0x1b) {
		t.Errorf("diagnostics: %q", text)
	}
}

func TestLogsAreBounded(t *testing.T) {
	o := first(t, `run := import("run"); for i := 0; i < 3000; i++ { run.log("line", i) }`)
	if len(o.Logs) != scripts.MaxLogLines || o.Logs[0] != "line 0" || !strings.Contains(o.Logs[len(o.Logs)-1], "dropped") {
		t.Errorf("%d lines, the last is %q", len(o.Logs), o.Logs[len(o.Logs)-1])
	}
	o = first(t, `run := import("run"); text := import("text"); run.log(text.repeat("ä", 4000))`)
	if len(o.Logs) != 1 || len(o.Logs[0]) > scripts.MaxLogLine+8 || !strings.HasSuffix(o.Logs[0], "ä …") {
		t.Errorf("a long line became %d bytes", len(o.Logs[0]))
	}
}

// With the whole log in each pass, logs exceeded all other traffic between the processes.
func TestPassOmitsEarlierLogLines(t *testing.T) {
	program := compile(t, bundleOf(imports+`run.log("a"); run.log("b"); run.log("c")`))
	for logged, want := range [][]string{{"a", "b", "c"}, {"b", "c"}, {"c"}, nil, nil} {
		in := everything()
		in.Logged = logged
		o, err := program.Pass(t.Context(), in, nil)
		if err != nil || o.Status != scripts.Completed {
			t.Fatalf("%+v, %v", o, err)
		}
		if len(o.Logs) != len(want) || !slices.Equal(o.Logs, want) {
			t.Errorf("after %d lines it gives %q, want %q", logged, o.Logs, want)
		}
	}
}

func TestPassEndsWithItsContext(t *testing.T) {
	p := compile(t, bundleOf(`a := 1`))
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	if _, err := p.Pass(ctx, everything(), nil); !errors.Is(err, why) {
		t.Errorf("Pass = %v, want %v", err, why)
	}
}

// Tengo has a cache inside of string constants and another one in its file set. With the race detector this test checks
// both.
func TestPassesShareAProgram(t *testing.T) {
	bundle := bundleOf(imports + `
s := "héllo"; c := s[1]; for r in s { c = r }
enum := import("enum"); times := import("times")
l := times.format_rfc3339[0]
enum.each([1], func(k, v) { return 1 / (v - 1) })`)
	p := compile(t, bundle)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			o, err := p.Pass(t.Context(), everything(), nil)
			if err != nil || o.Failure == nil || o.Failure.Position != "test.tengo:8:36" {
				t.Errorf("%+v %v", o.Failure, err)
			}
		})
	}
	group.Wait()
}
