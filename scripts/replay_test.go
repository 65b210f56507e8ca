package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ/scripts"
)

// author writes random scripts that loop, branch on results, walk over maps, and handle failures.
type author struct {
	*rapid.T
	b       strings.Builder
	names   int
	handles []string // variables that hold handles, visible here
	depth   int
}

func (a *author) pick(n int) int { return rapid.IntRange(0, n-1).Draw(a.T, "pick") }

func (a *author) line(format string, args ...any) {
	fmt.Fprintf(&a.b, "%s"+format+"\n", append([]any{strings.Repeat("\t", a.depth)}, args...)...)
}

func (a *author) name() string {
	a.names++
	return fmt.Sprintf("x%d", a.names)
}

// number writes an expression for a whole number, maybe from a result.
func (a *author) number() string {
	if len(a.handles) > 0 && a.pick(3) == 0 {
		return a.handles[a.pick(len(a.handles))] + ".size_gib"
	}
	return []string{"1", "2", "run.params.count", "len(m)", "int(string(3))", "(7 % 4)", "seen"}[a.pick(7)]
}

// text writes an expression for a name, which must not fail.
func (a *author) text() string {
	prefix := []string{"a", "b", "fail-"}[min(a.pick(8), 2)]
	return fmt.Sprintf(`"%s%d-" + seen`, prefix, a.pick(9))
}

func (a *author) block(statements int) {
	a.depth++
	outer := slices.Clone(a.handles)
	for range statements {
		a.statement()
	}
	a.handles = outer
	a.depth--
}

func (a *author) statement() {
	most := 10
	if a.depth > 2 {
		most = 6
	}
	switch a.pick(most) {
	case 0, 1:
		h := a.name()
		a.line(`%s := volume.create(%s, {size_gib: 1 + %s}, {labels: m})`, h, a.text(), a.number())
		a.handles = append(a.handles, h)
	case 2:
		if len(a.handles) > 0 {
			a.line(`machine.create("m-" + seen, {cpus: 1 + seen %% 4, memory_mib: 64, disks: [%s], env: m})`, a.handles[a.pick(len(a.handles))])
		}
	case 3:
		a.line(`m["k%d"] = string(%s)`, a.pick(5), a.number())
	case 4:
		a.line(`run.log(m, string(json.encode(m)), list, %s)`, a.number())
	case 5:
		a.line(`seen += %s; list = append(list, seen)`, a.number())
	case 6:
		a.line(`for k, v in m {`)
		a.depth++
		a.line(`seen++; node.ping({}, {labels: {k: k, v: v}})`)
		a.depth--
		a.block(a.pick(2))
		a.line(`}`)
	case 7:
		i := a.name()
		a.line(`for %s := 0; %s < 2; %s++ {`, i, i, i)
		a.block(1 + a.pick(2))
		a.line(`}`)
	case 8:
		a.line(`if %s %% 2 == 0 {`, a.number())
		a.block(1 + a.pick(2))
		a.line(`} else {`)
		a.block(a.pick(2))
		a.line(`}`)
	default:
		if len(a.handles) > 0 {
			h := a.handles[a.pick(len(a.handles))]
			a.line(`if %s.err { run.log(%s.err.code) } else { seen += %s.size_gib }`, h, h, h)
		}
	}
}

func script(t *rapid.T) string {
	a := &author{T: t}
	a.b.WriteString(imports + "json := import(\"json\")\nm := {zone: \"z\", a: \"1\", k9: \"\"}\nseen := 0\nlist := []\n")
	for range rapid.IntRange(1, 10).Draw(t, "statements") {
		a.statement()
	}
	a.line(`run.output({seen: seen, m: m, list: list, at: string(run.now())})`)
	return a.b.String()
}

func TestReplayFromEveryPrefixIsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := script(rt)
		in := everything()
		in.Params = map[string]any{"count": int64(2)}
		p, err := scripts.Compile(bundleOf(text))
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		o, w := play(t, p, in, chance)
		for len(w.open) > 0 {
			w.answer(0)
		}
		last, _ := play(t, p, in, nil)
		last.Calls, o.Calls = nil, nil
		if diff := cmp.Diff(last, o); diff != "" {
			rt.Fatalf("%s\nresults in another order change what the script does (-in order +by chance):\n%s", text, diff)
		}
		step := 1 + len(w.journal)/25 // all prefixes of a short journal, some of a long one
		for n := len(w.journal); n >= 0; n -= step {
			again, err := p.Pass(t.Context(), in, w.journal[:n])
			if err != nil {
				rt.Fatal(err)
			}
			if len(again.Calls) > len(w.calls)-n {
				rt.Fatalf("%s\nafter %d calls the script makes %d, of %d in all", text, n, len(again.Calls), len(w.calls))
			}
			if diff := cmp.Diff(w.calls[n:n+len(again.Calls)], again.Calls, cmp.Transformer("nil", func(c []scripts.NewCall) []scripts.NewCall { return append([]scripts.NewCall{}, c...) })); diff != "" {
				rt.Fatalf("%s\nafter %d calls the script makes others (-before +now):\n%s", text, n, diff)
			}
			if n == len(w.journal) {
				again.Calls = nil
				if diff := cmp.Diff(o, again); diff != "" {
					rt.Fatalf("%s\nthe whole journal gives another outcome (-before +now):\n%s", text, diff)
				}
			}
		}
	})
}

// FuzzScript puts any text through check, compiler and two passes: nothing may panic, and what passes its check must compile.
func FuzzScript(f *testing.F) {
	f.Add("a := 1")
	f.Add(imports + `for k, v in {b: 1, a: 2} { volume.create(k, {size_gib: v}).err }`)
	f.Add("params := {a: {type: \"list\", of: \"int\", default: [1], min: 1}}\nimport(\"run\").output({a: import(\"run\").params.a})")
	f.Add("f := func(x, ...y) { return x ? f(y...) : [1, \"a\", 'c', 1.5][0:1] }\nf(1, [2, 3]...)")
	f.Add("t := import(\"text\"); t.re_find(\"(a|b)*\", \"abab\", -1); t.split_n(\"a,b\", \",\", 2)")
	f.Add("m := {a: {b: [1]}}; m.a.b[0] += 2 / m.a.b[0]; delete(m, \"a\"); m[\"\" + m] = copy(m) == m")
	f.Fuzz(func(t *testing.T, text string) {
		b := bundleOf(text)
		r := scripts.Check(b)
		for _, d := range r.Diagnostics {
			if d.Line < 1 || d.Column < 1 || d.Width < 1 || d.Message == "" {
				t.Errorf("%+v", d)
			}
			_ = d.String()
		}
		p, err := scripts.Compile(b)
		if (err == nil) != r.OK() && err != nil {
			t.Fatalf("passes its check and does not compile: %v", err)
		}
		if err != nil {
			return
		}
		in := everything()
		o, err := p.Pass(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{}
		w.take(t, o.Calls)
		for len(w.open) > 0 {
			w.answer(0)
		}
		again, err := p.Pass(t.Context(), in, w.journal)
		if err != nil {
			t.Fatal(err)
		}
		if again.Status == scripts.Failed && strings.Contains(string(again.Failure.Code), "DETERMINISM") {
			t.Fatalf("the second pass: %+v", again.Failure)
		}
	})
}

func BenchmarkPass(b *testing.B) {
	p := compile(b, bundleOf(imports+`
for i := 0; i < 100; i++ { volume.create("web-" + i, {size_gib: 10, image: "debian-12"}, {retries: 3}) }
node.ping().err`))
	in := everything()
	o, err := p.Pass(b.Context(), in, nil)
	if err != nil || len(o.Calls) != 101 {
		b.Fatal(o, err)
	}
	w := &world{}
	w.take(b, o.Calls)
	b.Run("new-100-calls", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Pass(b.Context(), in, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay-100-calls", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.Pass(b.Context(), in, w.journal); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSequentialWaits runs a script that waits for each of its calls: the number of replayed calls grows with the square.
func BenchmarkSequentialWaits(b *testing.B) {
	for _, calls := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			p := compile(b, bundleOf(fmt.Sprintf(`node := import("node"); for i := 0; i < %d; i++ { node.ping().err }`, calls)))
			in := everything()
			for b.Loop() {
				if o, _ := play(b, p, in, nil); o.Status != scripts.Completed {
					b.Fatal(o)
				}
			}
		})
	}
}
