package scripts_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
	"writ/scripts/scripttest"
)

// sim executes no script: it returns the configured answer and records its arguments.
type sim struct {
	answer scripttest.Rehearsed
	err    error
	asked  []scripttest.Rehearsal
}

func (s *sim) Run(_ context.Context, r scripttest.Rehearsal) (scripttest.Rehearsed, error) {
	s.asked = append(s.asked, r)
	return s.answer, s.err
}

func (s *sim) Plan(context.Context, scripttest.Rehearsal) (scripts.Plan, error) {
	return scripts.Plan{
		Calls: []scripts.PlannedCall{
			{Seq: 1, Operation: "herodb.create", Name: "store"},
			{Seq: 2, Operation: "machine.create", Name: "m", Args: map[string]any{
				"env": map[string]any{"DB": map[string]any{"(known after)": []any{int64(1)}}}, "disks": []any{map[string]any{"ref": int64(1)}},
			}},
		},
		Output:  map[string]any{"id": map[string]any{"(known after)": []any{}}},
		Horizon: &scripts.Horizon{Position: "web.tengo:5:2", Reason: "the condition depends on it"},
	}, s.err
}

func (s *sim) Resources(context.Context) ([]scripttest.SimResource, error) {
	return []scripttest.SimResource{{Kind: writ.KindVolume, Name: "a", Node: "n1", Values: map[string]any{"size_gib": int64(2)}}}, s.err
}

func testBundle(text string) scripts.Bundle {
	return scripts.Bundle{Main: scripts.Source{Name: "web_test.tengo", Text: []byte(text)}}
}

func testFile(t testing.TB, text string, modules ...scripts.Source) *interpreter.TestFile {
	t.Helper()
	bundle := testBundle(text)
	bundle.Modules = modules
	f, err := interpreter.CompileTests(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// said formats a verdict as lines: outcome first, then "! position: text" for failures and " position: text" for other
// notes.
func said(v scripttest.Verdict) string {
	lines := []string{string(v.Outcome)}
	for _, n := range v.Notes {
		mark := " "
		if n.Failure {
			mark = "!"
		}
		line := mark + " " + strings.TrimPrefix(n.Position, "web_test.tengo:") + ": " + n.Text
		for _, at := range n.Trace {
			line += " < " + strings.TrimPrefix(at, "web_test.tengo:")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// played is a run with calls in each final state.
var played = scripttest.Rehearsed{
	State: "failed", Failure: &writ.Failure{Error: writ.Error{Code: writ.CodeNoCapacity, Message: "full"}, Position: "web.tengo:3:1"},
	Logs: []string{"hello"},
	Calls: []scripttest.RehearsedCall{
		{Call: writ.Call{Seq: 1, Operation: "volume.create", Name: "a", State: writ.CallSucceeded, Change: writ.ChangeCreated, Attempt: 2, NodeName: "n1"},
			Values: map[string]any{"path": "/a"}},
		{Call: writ.Call{Seq: 2, Operation: "machine.create", Name: "m", State: writ.CallFailed, Attempt: 1, Error: writ.Errorf(writ.CodeNoCapacity, "full")},
			Args: map[string]any{"disks": []any{map[string]any{"ref": int64(1)}}}},
	},
}

func TestTesterMembersReportFailures(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		// Values.
		{`t.equal(1 + 1, 2); t.equal({a: [1]}, {a: [1]}); t.equal(undefined, undefined)`, "pass"},
		{`t.equal(1, 2)`, "fail\n! 1:23: got 1, want 2"},
		{`t.equal("a", undefined, "the name")`, `fail` + "\n" + `! 1:23: the name: got "a", want undefined`},
		{`t.equal(1, "1")`, `fail` + "\n" + `! 1:23: got 1, want "1"`},
		{`t.equal([1, 2], [1]); t.equal(true, false)`, "fail\n! 1:23: got [1, 2], want [1]\n! 1:45: got true, want false"},
		{`t.equal({b: "x", a: {"y-z": undefined}}, {})`, `fail` + "\n" + `! 1:23: got {a: {"y-z": undefined}, b: "x"}, want {}`},
		{`t.equal(1.0, immutable([1]))`, "fail\n! 1:23: got 1, want [1]"},
		{`t.equal(["network.create web-net", "volume.create web-0", "machine.create web-0"], ["network.create web-net", "volume.create web-0"])`,
			"fail\n! 1:23: not equal (-want +got):\n" +
				"   [\n     \"network.create web-net\"\n     \"volume.create web-0\"\n  +  \"machine.create web-0\"\n   ]"},
		{`t.ok(1); t.ok("x"); t.ok([1])`, "pass"},
		{`t.ok(0); t.ok(undefined, "why " + 1)`, "fail\n! 1:23: got 0, want a true value\n! 1:32: why 1: got undefined, want a true value"},
		{`t.contains("abc", "b"); t.contains([1, [2]], [2]); t.contains({a: 1}, "a")`, "pass"},
		{`t.contains("abc", "x"); t.contains([1], 2, "list"); t.contains({a: 1}, "b")`,
			"fail\n! 1:23: \"x\" is not in \"abc\"\n! 1:47: list: 2 is not in [1]\n! 1:75: \"b\" is not in {a: 1}"},
		{`t.contains(1, 2)`, "fail\n! 1:23: t.contains looks into a string, a list or a map, not into a int"},
		{`if !t.equal(1, 2) { t.log("so") }`, "fail\n! 1:27: got 1, want 2\n  1:43: so"},

		// Logs and failures.
		{`t.log("a", 1, {b: 2}); t.log("two\nlines")`, "pass\n  1:23: a 1 {b: 2}\n  1:46: two\nlines"},
		{`t.fail("one", 1); t.fail("two")`, "fail\n! 1:23: one 1\n! 1:41: two"},
		{`t.fatal("no"); t.log("never")`, "fail\n! 1:23: no"},
		{`t.skip("later"); t.fail("never")`, "skip\n  1:23: later"},
		{`t.fail("first"); t.skip("then")`, "fail\n! 1:23: first\n  1:40: then"},
		{"t.log(\"\x1b[2J\")", "pass\n  1:23: \uFFFD[2J"},

		// Runs.
		{`r := t.run("web.tengo"); t.equal([r.state, r.code, r.message, r.position, r.changed], ["failed", "NO_CAPACITY", "full", "web.tengo:3:1", 1])
			t.equal(r.logs, ["hello"]); t.equal(r.output, {}); t.equal(r.steps, ["volume.create a", "machine.create m"])`, "pass"},
		{`r := t.run("web.tengo"); c := t.call(r, "volume.create a")
			t.equal([c.tries, c.change, c.state, c.node, c.values.path, c.code], [2, "created", "succeeded", "n1", "/a", undefined])
			t.equal(t.call(r, "machine.create m").args, {disks: ["<volume a>"]}); t.equal(r.calls[1].code, "NO_CAPACITY")`, "pass"},
		{`r := t.run("web.tengo"); t.call(r, "volume.create b"); t.log("never")`,
			"fail\n! 1:48: unknown call \"volume.create b\"; did you mean \"volume.create a\"?"},
		{`r := t.run("web.tengo"); t.call(r, "x")`, "fail\n! 1:48: unknown call \"x\"; the calls are:\n  volume.create a\n  machine.create m"},
		{`t.call({calls: []}, "x")`, "fail\n! 1:23: t.call takes the result of t.run or t.plan, not a map"},
		{`t.run("web.tengo").chagned`, "fail\n! 1:42: the result of t.run has no field \"chagned\"; did you mean \"changed\"?"},
		{`t.run("web.tengo").calls[0].tires`, "fail\n! 1:51: a call has no field \"tires\"; did you mean \"tries\"?"},
		{`t.run(1)`, "fail\n! 1:23: t.run takes the path of a script, not a int"},
		{`t.run("web.tengo", 1)`, "fail\n! 1:23: t.run takes a script and a map, not a int"},
		{`o := {parms: {}}; t.run("web.tengo", o)`, "fail\n! 1:41: t.run: unknown option \"parms\"; did you mean \"params\"?"},
		{`t.equal(t.resources()[0].values.size_gib, 2); t.equal(len(t.resources()), 1)`, "pass"},

		{`p := t.plan("web.tengo"); t.equal([p.steps, p.complete, p.horizon, p.code], [["herodb.create store", "machine.create m"], false, "web.tengo:5:2: the condition depends on it", undefined])
			t.equal(t.call(p, "machine.create m").args, {env: {DB: "(known after herodb.create store)"}, disks: ["<herodb store>"]}); t.equal(p.output.id, "(known at submission)")`, "pass"},
		{`f := {fail: {"node.ping": {}}}; t.plan("web.tengo", f)`, "fail\n! 1:55: t.plan: a plan is made before any call, so none can fail or have a result"},

		// Ends of a test by other causes.
		{`f := func(x) { t.equal(x, 1) }; f(2)`, "fail\n! 1:38: got 2, want 1 < 1:55"},
		{`x := undefined; x.y.z = 1`, "fail\n! 1:39: not index-assignable: undefined"},
		{`t.eqaul`, "fail\n! 1:25: t has no \"eqaul\"; did you mean \"equal\"?"},
		{`a := [0]; a[0] = a; t.equal(a, [[0]])`, "fail\n! 1:43: the value is nested too deeply, or contains itself"},
		{`x := "a"; for { x += x }`, "fail\n! 1:39: exceeding string size limit"},
		{`for { }`, "fail\n! 1:23: the test does too much: it has 10000000 units of work"},
		{`f := undefined; f = func() { return 1 + f() }; f()`, "fail\n! 1:63: stack overflow"},
	} {
		s := &sim{answer: played}
		f := testFile(t, "test_it := func(t) {  "+tt.body+" }")
		got := said(f.Run(t.Context(), 0, s))
		if i := strings.Index(tt.want, "stack overflow"); i >= 0 {
			got, _, _ = strings.Cut(got, " < ")
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", tt.body, diff)
		}
	}
}

// Promise: Plans, scripts and manuals: Tests of scripts are isolated from each other, and a failing one gives its
// position.
// How: One evaluation and one datacenter each.
// Also: TestTesterMembersReportFailures.
func TestTestsOfAFileAreIndependent(t *testing.T) {
	f := testFile(t, `counter := [0]
more := func() { counter[0] += 1; return counter[0] }
test_first := func(t) { t.equal(more(), 1) }
helper_test := func(t) { t.fatal("is none") }
test_second := func(t) { t.equal(more(), 1); t.equal(more(), 2) }
test_third := func(u) { test_first(u) }
`)
	if diff := cmp.Diff([]scripttest.Test{{Name: "test_first", Line: 3}, {Name: "test_second", Line: 5}, {Name: "test_third", Line: 6}}, f.Tests()); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	for i := range f.Tests() {
		if v := f.Run(t.Context(), i, &sim{}); v.Outcome != scripttest.Passed {
			t.Errorf("%s: %s", v.Test, said(v))
		}
	}
}

func TestTopLevelFailureHasItsPosition(t *testing.T) {
	f := testFile(t, "x := {}\nx.y.z = 1\ntest_it := func(t) { t.log(x) }\n")
	if got, want := said(f.Run(t.Context(), 0, &sim{})), "fail\n! 2:1: not index-assignable: undefined"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAssertionInAModuleHasItsCaller(t *testing.T) {
	f := testFile(t, "expect := import(\"expect\")\ntest_it := func(t) {\n\texpect.one(t, 2)\n}\n",
		scripts.Source{Name: "expect", Text: []byte("export {one: func(t, x) { t.equal(x, 1) }}\n")})
	if got, want := said(f.Run(t.Context(), 0, &sim{})), "fail\n! expect:1:27: got 2, want 1 < 3:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRunGetsTheOptionsOfTheTest(t *testing.T) {
	s := &sim{}
	f := testFile(t, `test_it := func(t) {
	t.run("../web.tengo", {
		params: {count: 2, names: ["a"]}, project: "shop", deployment: "web",
		fail: {"machine.create web-1": {code: "NO_CAPACITY", times: 2, message: "full"}, "node.ping": {}},
		results: {"node.facts": {cpus: 2}}
	})
	t.run("b.tengo")
}`)
	if v := f.Run(t.Context(), 0, s); v.Outcome != scripttest.Passed {
		t.Fatal(said(v))
	}
	want := []scripttest.Rehearsal{{
		Script: "../web.tengo", Params: map[string]any{"count": int64(2), "names": []any{"a"}}, Project: "shop", Deployment: "web",
		Faults: []scripttest.Fault{
			{Target: scripttest.Target{Operation: "machine.create", Name: "web-1"}, Code: writ.CodeNoCapacity, Message: "full", Times: 2},
			{Target: scripttest.Target{Operation: "node.ping"}, Code: writ.CodeInjected, Message: "the test makes node.ping fail"},
		},
		Results: []scripttest.Substitute{{Target: scripttest.Target{Operation: "node.facts"}, Values: map[string]any{"cpus": int64(2)}}},
	}, {Script: "b.tengo"}}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnusedExpectationFailsTheTest(t *testing.T) {
	s := &sim{answer: scripttest.Rehearsed{Untouched: []scripttest.Target{{Operation: "machine.create", Name: "web-9"}}}}
	f := testFile(t, `test_it := func(t) { t.run("web.tengo", {fail: {"machine.create web-9": {}}}); t.log("goes on") }`)
	want := "fail\n! 1:22: this run of web.tengo did not call machine.create web-9\n  1:80: goes on"
	if got := said(f.Run(t.Context(), 0, s)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestUnplayableScriptEndsTheTest(t *testing.T) {
	for err, want := range map[error]string{
		writ.Errorf(writ.CodeUsage, "there is no file web.tengo"): "there is no file web.tengo",
		errors.New("disk is full"):                                "disk is full",
	} {
		f := testFile(t, `test_it := func(t) { t.run("web.tengo"); t.log("never") }`)
		if got := said(f.Run(t.Context(), 0, &sim{err: err})); got != "fail\n! 1:22: "+want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTestEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("its time is over"))
	f := testFile(t, `test_it := func(t) { for { } }`)
	if v := f.Run(ctx, 0, &sim{}); v.Outcome != scripttest.Failed || len(v.Notes) != 1 || v.Notes[0].Text != "its time is over" {
		t.Errorf("%+v", v)
	}
}

func TestCheckUnderstandsTestFiles(t *testing.T) {
	const v = "volume := import(\"volume\"); volume.create(\"a\", {size_gib: 1})\n"
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"test_a := func(t) { t.run(\"web.tengo\", {params: {a: 1}, fail: {\"machine.create web-0\": {code: \"NO_CAPACITY\", times: 1}}}) }", nil},
		{"e := import(\"enum\")\nx := import(\"text\")\nf := func(a) { return x.trim_space(a) }\ntest_a := func(t) { e.each([f(\"a\")], func(k, v) { t.log(k, v) }) }", nil},
		{"", []string{"W0503 1:1"}},
		{"x := 1", []string{"W0503 1:1"}},
		{v + "test_a := func(t) { t.log(1) }", []string{"W0501 1:11"}},
		{"run := import(\"run\"); test_a := func(t) { t.log(run.params) }", []string{"W0501 1:8"}},
		{"params := {}; test_a := func(t) { t.log(1) }", []string{"W0503 1:1"}},
		{"test_a := func() {}", []string{"W0503 1:1"}},
		{"test_a := func(t, u) { }; test_b := func(...t) { }; test_c := 1", []string{"W0503 1:1", "W0503 1:27", "W0503 1:53"}},
		{"test_a := func(t) { t.log(1) }; test_a = 1", []string{"W0503 1:1"}},
		{"test_a := func(t) { t.eqaul(1, 1); t[\"runn\"]; func() { t.lgo() }() }", []string{"W0502 1:23", "W0502 1:38", "W0502 1:58"}},
		{"test_a := func(t) { t = {x: 1}; t.x }", nil},
		{"test_a := func(t) { t.equal(1); t.skip(); t.run(); t.equal([1]...) }", []string{"W0102 1:21", "W0102 1:33", "W0102 1:43"}},
		{"test_a := func(t) { t.run(\"a\", {parms: {}, project: \"A\", params: 1, fail: []}) }",
			[]string{"W0504 1:33", "W0504 1:53", "W0504 1:66", "W0504 1:75"}},
		{"x := 1; test_a := func(t) { t.run(\"a\", {params: x, fail: {\"node.ping\": x, \"node.facts\": {times: x}}, results: x}) }", nil},
		{"test_a := func(t) { t.run(\"a\", {fail: {\"machine.craete a\": {}, \"volume.get a\": {}, \"run.now\": {}, \"node.ping a\": {}, \"volume.create A\": {}}}) }",
			[]string{"W0504 1:40", "W0504 1:64", "W0504 1:84", "W0504 1:99", "W0504 1:118"}},
		{"test_a := func(t) { t.run(\"a\", {fail: {\"node.ping\": 1, \"node.facts\": {code: \"NO_CAPACITI\", tiems: 1, times: 0}}, results: {\"node.facts\": {cpus: \"2\", cpu: 1}}}) }",
			[]string{"W0504 1:53", "W0504 1:77", "W0504 1:92", "W0504 1:109", "W0504 1:145", "W0504 1:150"}},
	} {
		r := check.Check(testBundle(tt.text))
		if diff := cmp.Diff(tt.want, findings(r)); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s\n%s", tt.text, diff, r)
		}
	}
	r := check.Check(scripts.Bundle{
		Main:    scripts.Source{Name: "web_test.tengo", Text: []byte("m := import(\"lib/m\"); test_a := func(t) { t.log(m) }")},
		Modules: []scripts.Source{{Name: "lib/m", Text: []byte(v + "export 1\n")}},
	})
	if len(r.Diagnostics) != 1 || r.Diagnostics[0].Position() != "lib/m:1:11" || r.Diagnostics[0].Code != "W0501" {
		t.Error(r)
	}
}

func TestOnlyTestFilesHaveTests(t *testing.T) {
	text := []byte("test_a := func(t) { t.log(1) }\n")
	if _, err := interpreter.CompileTests(scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: text}}); writ.CodeOf(err) != writ.CodeScriptInvalid {
		t.Errorf("%v", err)
	}
	// A test file that is run as a script has no effect.
	p, err := interpreter.Compile(scripts.Bundle{Main: scripts.Source{Name: "web_test.tengo", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := p.Pass(t.Context(), everything(), nil); err != nil || o.Status != scripts.Completed || len(o.Calls) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
}
