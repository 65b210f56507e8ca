package scripts_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

func planOf(t testing.TB, bundle scripts.Bundle, in scripts.Inputs) scripts.Plan {
	t.Helper()
	in.Run = "" // unknown before the script is signed
	plan, err := interpreter.PlanOf(t.Context(), bundle, in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// agree fails the test unless a run made the planned calls, as far as plan and run go.
func agree(t rapid.TB, text string, plan scripts.Plan, o scripts.Outcome, calls []scripts.NewCall) {
	t.Helper()
	followed := plan.Follow(scripts.Outcome{Status: o.Status, Calls: calls, Failure: o.Failure}, 0)
	if followed.Failure != o.Failure {
		t.Fatalf("%s\nthe run deviates from its plan: %s", text, followed.Failure.Message)
	}
	for i, c := range plan.Calls[:min(len(calls), len(plan.Calls))] {
		if c.Hash != calls[i].Hash && !c.Hash.IsZero() || c.Position != calls[i].Position || c.Hash == calls[i].Hash && !cmp.Equal(c.After, calls[i].After) {
			t.Fatalf("%s\nplanned was %+v, the call is %+v", text, c, calls[i])
		}
	}
	if plan.Failure != nil && o.Status != scripts.Failed {
		t.Fatalf("%s\nplanned was the failure %v, the run is %s", text, plan.Failure, o.Status)
	}
}

// Promise: Plans, scripts and manuals: The plan of every example equals its run.
// How: One function creates both.
func TestPlanOfAnExampleIsItsRun(t *testing.T) {
	planned := make(map[string]bool)
	for _, test := range []struct {
		file    string
		params  map[string]any
		calls   int
		horizon string // why the plan ends, if it does: only where the example reads a result
	}{
		{file: "hello.tengo", calls: 1},
		{file: "hello.tengo", params: map[string]any{"name": "you"}, calls: 1},
		{file: "web.tengo", calls: 7},
		{file: "web.tengo", params: map[string]any{"count": int64(50), "image": "debian"}, calls: 103},
		{file: "web.tengo", params: map[string]any{"count": int64(1), "size_gib": int64(3)}, calls: 5},
		{file: "loop.tengo", calls: 1, horizon: "loop.tengo:15:5: the condition depends on node.facts 1"},
		{file: "handled.tengo", calls: 1, horizon: "handled.tengo:8:22: the condition depends on herodb fail-store"},
		{file: "fleet.tengo", calls: 11},
		{file: "fleet.tengo", params: map[string]any{"count": int64(1)}, calls: 5},
		{file: "pair.tengo", calls: 3},
		{file: "migrate.tengo", calls: 4},
		{file: "service.tengo", calls: 4},
		{file: "backup.tengo", calls: 4, horizon: "lib/backup@1:133:23: the condition depends on herodb shop-store"},
	} {
		planned[test.file] = true
		t.Run(test.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("examples", test.file))
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := scripts.Resolve(scripts.Source{Name: test.file, Text: text}, nil)
			if err != nil {
				t.Fatal(err)
			}
			report := check.Check(bundle)
			in := scripts.Inputs{Allow: report.Operations, MaxCalls: 200}
			if in.Params, err = report.Params.Fill(test.params); err != nil {
				t.Fatal(err)
			}
			plan := planOf(t, bundle, in)
			horizon := ""
			if plan.Horizon != nil {
				horizon = plan.Horizon.Position + ": " + plan.Horizon.Reason
			}
			if len(plan.Calls) != test.calls || horizon != test.horizon || plan.Failure != nil {
				t.Errorf("%d calls, horizon %q, failure %v", len(plan.Calls), horizon, plan.Failure)
			}
			in.Run = "abc"
			o, w := play(t, compile(t, bundle), in, nil)
			agree(t, test.file, plan, o, w.calls)
			if o.Status != scripts.Completed || horizon == "" && len(w.calls) != len(plan.Calls) {
				t.Errorf("the run is %s and makes %d calls", o.Status, len(w.calls))
			}
		})
	}
	files, err := filepath.Glob("examples/*.tengo")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !planned[name] && !strings.HasSuffix(name, "_test.tengo") {
			t.Errorf("the example %s is not planned here", name)
		}
	}
}

// A run makes its planned calls for all results.
//
// Promise: Plans, scripts and manuals: A plan shows only known values: for any results, a run performs the planned
// calls up to the plan's horizon.
// How: Every operator, builtin and module checks for unknown values; a decision by an unknown value ends the plan.
// Also: TestUnknownIsNeverUsedAsAValue.
func TestRunsFollowTheirPlan(t *testing.T) {
	for number := range uint64(200) {
		chance := rand.New(rand.NewPCG(number, 1))
		bundle := randomScript(chance)
		in := everything()
		in.Params = map[string]any{"count": int64(2), "zones": []any{"a", "b"}}
		in.MaxCalls = 40
		plan := planOf(t, bundle, in)
		p := compile(t, bundle)
		for range 3 {
			w := &fixture{whim: chance}
			o := playIn(t, w, p, in, chance)
			agree(t, string(bundle.Main.Text), plan, o, w.calls)
		}
	}
}

// TestUnknownIsNeverUsedAsAValue uses results in every possible way. It runs each script with many results; the plan
// must be correct for all of them.
func TestUnknownIsNeverUsedAsAValue(t *testing.T) {
	complete := 0
	for _, expression := range unknownUses {
		for name, use := range map[string]string{
			"as a text":      `x := EXPR; node.ping({}, {labels: {x: text.substr("" + x + "-----", 0, 5)}}); node.ping()`,
			"as a condition": `if EXPR { volume.create("yes", {size_gib: 1}) } else { volume.create("no", {size_gib: 2}) }; node.ping()`,
			"as an operand":  `for i := 0; i < 3; i++ { if (EXPR) == i || string(EXPR) == "a" { node.ping({}, {node: "n" + i}) } }; node.ping()`,
			"as a list":      `l := [EXPR, 1]; for v in l { node.ping({}, {labels: {n: string(len(l)), v: type_name(v) == "int" ? "int" : "other"}}) }`,
			"in a closure":   `y := EXPR; g := func(a, ...b) { y = a; return [b, y] }; r := g(EXPR, y); node.ping({}, {labels: {n: "" + len(r[0]), t: is_int(r[0][0]) ? "i" : "o"}})`,
			"as a map":       `m := {a: EXPR, b: 2}; for k, v in m { node.ping({}, {labels: {k: k}}) }; j := string(json.encode(m)); node.ping({}, {labels: {j: text.substr(j, 0, 9)}}); if m == {a: 1, b: 2} { node.ping() }`,
		} {
			text := "n := f.cpus; s := f.hostname; list := [1, n, \"c\"]; deep := {a: [n]}\n" + strings.ReplaceAll(use, "EXPR", "("+expression+")")
			text = "f := node.facts(); v := volume.create(\"v\", {size_gib: 1}); " + text
			for _, module := range []string{"volume", "machine", "network", "node", "run", "json", "text", "math", "times", "base64", "hex", "enum", "own"} {
				if strings.Contains(text, module+".") {
					text = module + ` := import("` + module + `"); ` + text
				}
			}
			bundle := bundleOf(text)
			bundle.Modules = []scripts.Source{{Name: "own", Text: []byte(`f := import("node").facts(); i := 0; export {list: [f.cpus, 1], cpus: f.cpus, counter: func() { i++; return i }, twice: func(x) { return x + x }, choose: func(x) { return x ? 1 : 2 }, fixed: func(x) { return 3 }}`)}}
			in := everything()
			plan := planOf(t, bundle, in)
			if plan.Horizon == nil && plan.Failure == nil {
				complete++
			}
			if len(plan.Calls) < 2 {
				t.Errorf("%s\n%+v", text, plan.Failure)
				continue
			}
			p := compile(t, bundle)
			for seed := range uint64(4) {
				w := &fixture{whim: rand.New(rand.NewPCG(seed, 1))}
				o := playIn(t, w, p, in, nil)
				agree(t, name+": "+text, plan, o, w.calls)
			}
		}
	}
	if complete < len(unknownUses) { // otherwise the plans end too early to be wrong
		t.Errorf("only %d plans of %d expressions are complete", complete, len(unknownUses))
	}
}

var unknownUses = []string{
	`n`, `s`, `f.err`, `f.err.code`, `v.path`, `v`, `v.name`, `run.id`, `run.now()`, `run.project`, `undefined`,
	`n + 1`, `1 + n`, `n - 1`, `1 - n`, `n * 2`, `2 * n`, `n / 2`, `6 / n`, `n % 2`, `6 % n`, `n & 1`, `1 & n`, `n | 1`, `1 | n`, `n ^ 1`, `1 ^ n`,
	`n &^ 1`, `1 &^ n`, `n << 1`, `1 << n`, `n >> 1`, `1 >> n`, `n < 2`, `2 < n`, `n > 2`, `2 > n`, `n <= 2`, `2 <= n`, `n >= 2`, `2 >= n`,
	`n == 2`, `2 == n`, `n != 2`, `2 != n`, `n == n`, `n != s`, `s == ""`, `"" == s`, `s == undefined`, `undefined == s`, `undefined != v.path`, `1.5 == n`, `'a' == n`,
	`-n`, `+n`, `^n`, `!n`, `!!n`, `(n)`, `n && 1`, `1 && n`, `0 && n`, `n || 1`, `0 || n`, `1 || n`, `n ? 1 : 2`, `true ? n : 2`, `false ? n : 2`,
	`"a" + s`, `s + "a"`, `s + s`, `s + 1`, `"" + n`, `'a' + n`, `n + 'a'`, `1.5 + n`, `n + 1.5`, `bytes("a") + s`, `[1] + list`, `list + [n]`, `[n] + [2]`, `list + n`,
	`list`, `deep`, `list[0]`, `list[1]`, `list[n]`, `{a: 1}[s]`, `"abc"[n]`, `deep.a`, `deep.a[0]`, `deep[s]`, `s[0]`, `s[n]`, `n.a.b`, `[n][0]`,
	`list[0:1]`, `list[1:]`, `list[:n]`, `list[n:]`, `s[0:1]`, `s[:n]`, `"abc"[n:]`, `"abc"[:n]`, `"abc"[0:2]`, `[1, 2, 3][:2]`,
	`list == [1, 2, "c"]`, `[1, 2] == [1, n]`, `deep == {a: [2]}`, `{a: [2]} == deep`, `list == 1`, `1 == list`, `[[n]] == [[1]]`, `v == v`, `v == f`, `v == undefined`,
	`string(n)`, `string(s, "d")`, `string(list)`, `int(s)`, `int(s, 3)`, `int("x", n)`, `int("3", n)`, `float(n)`, `float("x", n)`, `bool(n)`, `bool(list)`, `bool([])`,
	`char(n)`, `bytes(s)`, `bytes(n)`, `time(n)`, `len(s)`, `len(list)`, `len(deep)`, `len(n)`, `copy(n)`, `copy(list)`, `copy(deep)`, `range(0, n)`, `range(n, 3)`, `range(0, 4, n)`,
	`append(list, n)`, `append(s, 1)`, `append([], n, s)`, `append([], list...)`, `append([1], f.err...)`, `splice(list, 0, 1)`, `splice(list, n, 1)`, `splice(list, 0, n)`, `splice(list, 0, 0, n)`,
	`delete({a: 1}, s)`, `delete(deep, "a")`, `format("%d %v", 1, n)`, `format(s, 1)`, `format("%v", list)`, `format("%s", "a")`,
	`type_name(n)`, `type_name(list)`, `is_int(n)`, `is_string(s)`, `is_undefined(v.path)`, `is_undefined(f.err)`, `is_error(error(n))`, `is_array(list)`, `is_map(deep)`, `is_callable(n)`,
	`is_function(n)`, `is_iterable(s)`, `is_bool(n < 2)`, `is_float(n)`, `is_char(n)`, `is_bytes(s)`, `is_time(run.now())`, `is_immutable_map(n)`, `is_immutable_array(immutable(list))`,
	`error(n)`, `error(n).value`, `error("x") == error(n)`, `immutable(list)`, `immutable(n)`, `immutable(deep).a[0]`,
	`math.abs(n)`, `math.max(1, n)`, `math.min(n, 1)`, `math.pow(2, n)`, `math.floor(1.5)`, `math.is_nan(n)`, `math.pi`,
	`text.contains(s, "a")`, `text.contains("abc", s)`, `text.to_upper(s)`, `text.join(list, ",")`, `text.join(["a", s], ",")`, `text.join(["a", "b"], ",")`, `text.split(s, ",")`, `text.split("a,b", s)`,
	`text.repeat("a", n)`, `text.atoi(s)`, `text.itoa(n)`, `text.substr(s, 0, 1)`, `text.substr("abc", 0, n)`, `text.replace("aaa", "a", s, n)`, `text.has_prefix(s, "a")`, `text.trim_space(s)`,
	`text.re_match("a+", s)`, `text.re_find("a", s)`, `text.re_replace("a", s, "b")`, `text.re_split(",", s)`, `text.format_int(n, 10)`, `text.format_float(n, "f", 1, 64)`, `text.parse_int(s, 10, 64)`,
	`text.compare(s, "a")`, `text.index("xa", s)`, `text.pad_left(s, 5, "0")`, `text.fields(s)`, `text.quote(s)`,
	`json.encode(n)`, `json.encode(list)`, `json.encode(deep)`, `json.encode({a: {b: [s]}})`, `json.encode(1)`, `json.decode(s)`, `json.decode("[" + n + "]")`, `json.decode("[1]")`,
	`base64.encode(bytes(s))`, `base64.decode(s)`, `hex.encode(bytes(s))`, `hex.decode(s)`,
	`times.date(2020, 1, n)`, `times.add(run.now(), 5)`, `times.time_year(run.now())`, `times.unix(n)`, `times.parse("2006", s)`, `times.before(run.now(), n)`, `times.time_format(run.now(), "06")`, `times.duration_string(n)`,
	`enum.map(list, func(k, v) { return v })`, `enum.map(s, func(k, v) { return v })`, `enum.all(list, func(k, v) { return v })`, `enum.find(list, func(k, v) { return v == 1 })`, `enum.filter(list, func(k, v) { return k > 0 })`,
	`own.twice(n)`, `own.twice(list)`, `own.choose(n)`, `own.choose(list)`, `own.fixed(n)`, `import("own").twice(s)`,
	`func() { x := n; x++; return x }()`, `func() { x := n; x--; return x }()`, `func() { x := 1; x += n; return x }()`, `func() { x := 7; x -= n; return x }()`, `func() { x := n; x *= 2; return x }()`,
	`func() { x := 6; x /= n; return x }()`, `func() { x := 6; x %= n; return x }()`, `func() { x := 6; x <<= n; return x }()`, `func() { x := 6; x >>= n; return x }()`, `func() { x := 6; x &= n; return x }()`,
	`func() { x := 6; x |= n; return x }()`, `func() { x := 6; x ^= n; return x }()`, `func() { x := 6; x &^= n; return x }()`, `func() { x := "a"; x += s; return x }()`,
	`func() { x := {a: 1}; x.a += n; return x.a }()`, `func() { x := {a: 1}; x[s] = 2; return x }()`, `func() { x := [1, 2, 3]; x[n] = 9; return x[0] }()`, `func() { x := [1]; x[0] = n; return x }()`,
	`func() { x := f.err; x.a = 1; return x }()`, `func() { x := [1]; y := append(f.err, x); y[0][0] = 5; return x[0] }()`, `func() { x := deep; x.a[0] = 5; return deep.a[0] }()`,
	`func() { for x in s { return x }; return 1 }()`, `func() { for x in list { return x }; return 1 }()`, `func() { x := 0; for x < n { x++ }; return x }()`, `func() { if x := n; x > 1 { return 1 }; return 2 }()`,
	`func(a, ...b) { return len(b) }(list...)`, `func(a, ...b) { return b }(s, n)`, `func(...a) { return len(a) }(s...)`, `n(1)`, `s()`, `list[1]()`, `[len][0](s)`, `[len][0](list)`,
	`func() { x := [0]; x[0] = x; return [x] == [[n]] }()`, `func() { x := [n]; y := [x, x]; z := [y, y]; return string(z) }()`, `func() { x := [n]; x[0] = x; return string(x) }()`,
	`"" + error(n)`, `string(error([n]))`, `format("%v", error(n))`, `text.join([error(n)], "")`, `copy(error(n))`, `copy([error([n])])`, `error(n) == error(n)`, `!list`, `!error(n)`, `error(n) ? 1 : 2`,
	`own.list`, `own.list[0]`, `own.cpus`, `own.cpus == 2`, `own.counter()`, `run.secret(s)`, `"" + run.secret("db-" + s)`, `deep == deep`, `[v] == [v]`, `[v] == [f]`, `"" + [v, f]`,
	`func() { x := {a: {b: 1}}; x.a.b += n; x.a.b -= 1; x.a.b++; return x.a.b == 3 }()`, `func() { x := n; x.y++; return x }()`, `func() { x := [[1]]; x[0][n]++; return x }()`,
	`func() { a := []; g := func() { a = append(a, n); return len(a) }; g(); return g() + len(a) }()`, `func() { g := func(k) { return k == 0 ? n : g(k - 1) }; return g(5) }()`, `func() { g := n ? len : copy; return g("a") }()`,
	`func() { x := {a: n}; y := copy(x); y.a = 1; return x == y }()`, `func() { x := [n, 2, 3]; y := x[1:]; y[0] = 5; return x[1] }()`, `func() { x := [1, 2, 3]; y := x[n:]; y[0] = 5; return x[1] }()`,
	`func() { for i, x in {a: n, b: 1} { if i == "b" && x { return x } }; return 3 }()`, `func() { for true { if n { break }; return 5 }; return 1 }()`, `func() { for i := 0; i < 3; i++ { if i == n { continue }; node.ping() } ; return 1 }()`,
	`volume.create(["w", {size_gib: n}]...).name`, `volume.create([s, {size_gib: 1}]...).name`, `node.ping({}, {labels: {a: s, b: "b"}, timeout: s})`, `node.ping({}, f.err)`, `network.create("net", {cidr: s}).name`,
	`node.facts().cpus`, `volume.create("w-" + n, {size_gib: 1}).name`, `"" + volume.create("w-" + n, {size_gib: 1})`, `volume.create("w", {size_gib: n}).path`, `volume.create("w", n)`, `volume.create("w", {size_gib: 1}, s)`,
	`volume.create("w", {size_gib: 1}, {retries: n, node: s}).name`, `volume.create(s, {size_gib: "x"})`, `machine.create("m", {cpus: 1, memory_mib: 64, disks: [v], env: {A: s, B: "b"}}).name`,
	`machine.create("m", {cpus: n, memory_mib: 64, disks: list})`, `volume.get(v).path`, `volume.get(volume.create("w-" + n, {size_gib: 1}))`, `run.output({a: n})`, `run.output(f.err)`, `run.log(n, list, deep)`, `run.fail("a" + n)`,
}

func TestFollowComparesAllKnownParts(t *testing.T) {
	const planned = `f := node.facts(); r := volume.create("r", {size_gib: 1})
machine.create("vm" + run.id, {cpus: 2, memory_mib: 64, disks: [r], env: {A: f.hostname, B: "b"}}, {retries: 1, node: f.hostname, labels: {x: f.hostname, y: "y"}})
volume.create("last", {size_gib: 1})`
	plan := planOf(t, bundleOf(imports+planned), everything())
	if len(plan.Calls) != 4 || plan.Horizon != nil {
		t.Fatalf("%+v", plan)
	}
	for change, follows := range map[[2]string]bool{
		{}:                                             true,
		{`f.hostname`, `"other"`}:                      true, // everywhere
		{`"vm" + run.id`, `"web"`}:                     true,
		{`, node: f.hostname`, ``}:                     true, // as if it were undefined
		{`A: f.hostname, `, ``}:                        true,
		{`cpus: 2`, `cpus: 3`}:                         false,
		{`B: "b"`, `B: "c"`}:                           false,
		{`B: "b"`, `B: "b", C: "c"`}:                   false,
		{`disks: [r]`, `disks: []`}:                    false,
		{`retries: 1`, `retries: 2`}:                   false,
		{`retries: 1, `, ``}:                           false,
		{`retries: 1`, `retries: 1, adopt: true`}:      false,
		{`y: "y"`, `y: "z"`}:                           false,
		{`y: "y"`, `y: "y", z: "z"`}:                   false,
		{`machine.create`, `machine.delete`}:           false,
		{`"last"`, `"other"`}:                          false,
		{"volume.create(\"last\", {size_gib: 1})", ""}: false,
		{`"last", {size_gib: 1})`, `"last", {size_gib: 1}); node.ping()`}: false,
	} {
		text := strings.ReplaceAll(planned, change[0], change[1])
		if change[0] == `machine.create` {
			text = strings.Replace(planned, `machine.create("vm" + run.id, {cpus: 2, memory_mib: 64, disks: [r], env: {A: f.hostname, B: "b"}}, `, `machine.delete("vm", {}, `, 1)
		}
		if change[0] == "" {
			text = planned
		}
		o, w := play(t, compile(t, bundleOf(imports+text)), everything(), nil)
		got := plan.Follow(scripts.Outcome{Status: o.Status, Calls: w.calls}, 0)
		if o.Status != scripts.Completed || (got.Status == scripts.Completed) != follows {
			t.Errorf("with %q for %q the run is %s, and %s (%+v) by its plan", change[1], change[0], o.Status, got.Status, got.Failure)
		}
	}
}

func TestPlanShowsUnknownValues(t *testing.T) {
	plan := planOf(t, bundleOf(imports+`
root := volume.create("root", {size_gib: 1})
facts := node.facts()
machine.create("web-" + facts.cpus, {cpus: facts.cpus, memory_mib: 64, disks: [root], env: {RUN: run.id, AT: run.now() + root.path}})
run.log("made", [root, root.path, run.id], 1)
run.output({path: root.path + facts.hostname})
if root.err { node.ping() }
`), everything())
	machine := plan.Calls[3]
	got := []any{plan.Describe(machine.Name), plan.Describe(machine.Args), machine.After, machine.Waits, plan.Logs, plan.Describe(plan.Output), plan.Horizon}
	want := []any{
		"(known after node.facts 2)",
		`{cpus: (known after node.facts 2), disks: [<volume root>], env: {AT: (known after volume root, run.now 3), RUN: (known at submission)}, memory_mib: 64}`,
		[]int{1}, []int{1, 3},
		[]string{"made [<volume root>, (known after volume root), (known at submission)] 1"},
		`{path: (known after volume root, node.facts 2)}`,
		&scripts.Horizon{Position: "test.tengo:10:4", Reason: "the condition depends on volume root", After: []int{1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The digest of a plan is signed, so it must not change.
func TestDigestOfAPlan(t *testing.T) {
	text := imports + `
root := volume.create("root", {size_gib: 1})
machine.create("web", {cpus: 1, memory_mib: 64, disks: [root], env: {RUN: run.id, PATH: root.path}}, {retries: 1})
`
	const want = "ea8e1d718922dd5b56f66d6ea7b0d0e3fbc4104b39de2571356b5f0f63736389"
	plan := planOf(t, bundleOf(text), everything())
	if plan.Digest.String() != want {
		t.Errorf("it is %s", plan.Digest)
	}
	for name, other := range map[string]string{
		"a comment":   "// more\n" + text,
		"more logs":   text + `run.log("done")`,
		"more output": text + `run.output({path: root.path})`,
	} {
		if again := planOf(t, bundleOf(other), everything()); again.Digest != plan.Digest {
			t.Errorf("%s changes it", name)
		}
	}
	for name, other := range map[string]string{
		"another value":           strings.Replace(text, "size_gib: 1", "size_gib: 2", 1),
		"another option":          strings.Replace(text, "retries: 1", "retries: 2", 1),
		"one call more":           text + "node.ping()",
		"a horizon":               text + "if root.path { }",
		"another unknown":         strings.Replace(text, "run.id", "root.path", 1),
		"a value and not unknown": strings.Replace(text, "run.id", `"abc"`, 1),
	} {
		if again := planOf(t, bundleOf(other), everything()); again.Digest == plan.Digest {
			t.Errorf("%s does not change it", name)
		}
	}
}

func TestPlanFailsLikeItsRun(t *testing.T) {
	tight := everything()
	tight.Allow, tight.MaxCalls = []string{"node.facts", "node.ping"}, 3
	for text, want := range map[string]writ.Code{
		`f := node.facts(); volume.create("v", {size_gib: 1})`:                            writ.CodeOperationNotAllowed,
		`f := node.facts(); for i := 0; i < 5; i++ { node.ping({}, {node: f.hostname}) }`: writ.CodeScriptLimit,
		`f := node.facts(); node.ping({}, {node: f.hostname, retries: "many"})`:           writ.CodeArgumentsInvalid,
		`f := node.facts(); node.ping({}, {node: f.hostname, labels: {a: f.cpus, b: 1}})`: writ.CodeArgumentsInvalid,
		`f := node.facts(); f.nothing`:                                                    writ.CodeScriptFailed,
		`f := node.facts(); run.fail("no")`:                                               writ.CodeScriptFailed,
		`for { }`:                                                                         writ.CodeScriptLimit,
		`a := `:                                                                           writ.CodeScriptInvalid,
	} {
		plan := planOf(t, bundleOf(imports+text), tight)
		if plan.Horizon != nil || plan.Failure == nil || plan.Failure.Code != want {
			t.Errorf("%s\nhorizon %v, failure %v, want %s", text, plan.Horizon, plan.Failure, want)
		}
	}
}

// FuzzPlan plans any text and runs it: every text that compiles has a plan, and its run follows it.
func FuzzPlan(f *testing.F) {
	for _, expression := range unknownUses {
		f.Add(imports + "f := node.facts(); v := volume.create(\"v\", {size_gib: 1}); n := f.cpus; s := f.hostname; list := [n]; deep := {a: list}\nx := " + expression + "\nnode.ping()")
	}
	f.Fuzz(func(t *testing.T, text string) {
		bundle, in := bundleOf(text), everything()
		p, err := interpreter.Compile(bundle)
		plan := planOf(t, bundle, in)
		if err != nil {
			if plan.Failure == nil {
				t.Fatalf("plan of a script that does not compile: %v", err)
			}
			return
		}
		w := &fixture{whim: rand.New(rand.NewPCG(1, 1))}
		o := playIn(t, w, p, in, nil)
		if o.Failure != nil && o.Failure.Code == writ.CodeScriptLimit {
			return // a pass and its plan may reach limits of memory or steps at different places
		}
		agree(t, text, plan, o, w.calls)
	})
}

// expression writes a nested expression of operators, functions and lists that contain results.
func expression(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"n", "s", "list", "deep", "deep.a", "v.path", "f.err", "f.kvm", "run.id", "1", "2", `"a"`, `"7"`, "true", "undefined", "[1, 2]", "{a: 1}"}).Draw(t, "leaf")
	}
	in := func() string { return "(" + expression(t, rapid.IntRange(0, depth-1).Draw(t, "depth")) + ")" }
	form := rapid.SampledFrom([]string{
		"X + X", "X - X", "X * X", "X == X", "X != X", "X < X", "X >= X", "X && X", "X || X", "!X", "-X", "X ? X : X", "[X, X]", "{a: X, b: X}", "X[0]", "X.a", "X[X]", "X[0:1]",
		"string(X)", "int(X, X)", "bool(X)", "len(X)", "copy(X)", "append(X, X)", "is_int(X)", "is_undefined(X)", "type_name(X)", "error(X)", "immutable(X)", `format("%v", X)`, `"" + X`,
		"json.encode(X)", "json.decode(X)", "text.contains(X, X)", `text.join(X, "-")`, "math.abs(X)", "func(x) { return x }(X)", "func(x, ...y) { x = y; return x }(X, X)", "func() { x := X; x.a = X; return x }()",
		"func() { x := X; x[0] = X; return x }()", "func() { for x in X { return x } }()", "func() { x := X; y := [x]; y[0] = 1; return [x, y] }()", "func() { if X { return X }; return X }()", "splice(X, X)", "delete(X, X)",
	}).Draw(t, "form")
	for strings.Contains(form, "X") {
		form = strings.Replace(form, "X", in(), 1)
	}
	return form
}

func TestRunsWithRandomExpressionsFollowTheirPlan(t *testing.T) {
	testenv.CheckProperty(t, func(rt *rapid.T) {
		text := `json := import("json"); text := import("text"); math := import("math"); node := import("node"); run := import("run"); volume := import("volume")
f := node.facts(); v := volume.create("v", {size_gib: 1}); n := f.cpus; s := f.hostname; list := [1, n, "c"]; deep := {a: [n]}
x := ` + expression(rt, 3) + `
node.ping({}, {labels: {x: text.substr("" + x + "----", 0, 4)}})
y := ` + expression(rt, 2) + `
if y == x || list == deep.a { node.ping() }
node.ping({}, {labels: {x: text.substr("" + [x, y, list, deep] + "----", 0, 20)}})
`
		if _, err := interpreter.Compile(bundleOf(text)); err != nil {
			return
		}
		plan := planOf(t, bundleOf(text), everything())
		p := compile(t, bundleOf(text))
		for range 3 {
			w := &fixture{whim: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))}
			o := playIn(t, w, p, everything(), nil)
			agree(rt, text, plan, o, w.calls)
		}
	})
}

// The script continues with the given results. A read is still a wait, and the rest is as in a plan.
func TestGivenResultsExtendAPlan(t *testing.T) {
	bundle := bundleOf(imports + `
root := volume.create("root", {size_gib: 1})
if root.err == undefined && root.size_gib == 1 { volume.create("more", {size_gib: root.size_gib + 1}) }
node.ping({}, {node: node.facts().hostname})
`)
	plan, err := interpreter.Foresee(t.Context(), bundle, everything(), map[int]map[string]any{1: {"size_gib": int64(1)}})
	if err != nil || plan.Horizon != nil || len(plan.Calls) != 4 {
		t.Fatalf("%+v, %v", plan, err)
	}
	more, ping := plan.Calls[1], plan.Calls[3]
	if more.Args["size_gib"] != int64(2) || !cmp.Equal(more.Waits, []int{1}) || plan.Describe(ping.Options["node"]) != "(known after node.facts 3)" {
		t.Errorf("%+v, %+v", more, ping)
	}
}
