package scripts_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

// The number of random scripts to replay. All of them take minutes with the race detector.
const (
	randomScripts = 1_000
	manyScripts   = 10_000 // with WRIT_TEST_LONG=1
)

var oneScript = flag.Int("script", -1, "replay only the random script of this number")

// TestReplayFromEveryPrefixIsEqual runs random scripts with results in random order, then replays each from every
// prefix of its journal. The calls and everything else must be the same.
//
// Promise: Evaluation and resumes: Replaying a run from any point of its journal gives the same calls.
// How: A pass is a pure function of bundle, inputs and journal.
func TestReplayFromEveryPrefixIsEqual(t *testing.T) {
	if *oneScript >= 0 {
		replay(t, *oneScript)
		return
	}
	count := randomScripts
	if testenv.IsLong() {
		count = manyScripts
	}
	var calls, completed atomic.Int64
	t.Run("scripts", func(t *testing.T) {
		const parts = 20
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for number := part; number < count; number += parts {
					o, n := replay(t, number)
					calls.Add(int64(n))
					if o.Status == scripts.Completed {
						completed.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d scripts with %d calls; %d reached their end, the others failed", count, calls.Load(), completed.Load())
	if completed.Load() < int64(count)/2 || calls.Load() < 5*int64(count) {
		t.Error("too few scripts reach their end, or make too few calls, to prove anything")
	}
}

// replay writes the script of a number and runs it. It returns the outcome of the script and its number of calls.
func replay(t *testing.T, number int) (scripts.Outcome, int) {
	t.Helper()
	chance := rand.New(rand.NewPCG(uint64(number), 0))
	bundle := randomScript(chance)
	in := everything()
	in.Params = map[string]any{"count": int64(2), "zones": []any{"a", "b"}}
	in.MaxCalls = 40
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("script %d: %s\n%s\nonce more: go test ./scripts -run TestReplayFromEveryPrefixIsEqual -script %[1]d",
			number, fmt.Sprintf(format, args...), bundle.Main.Text)
	}
	p, err := interpreter.Compile(bundle)
	if err != nil {
		fail("%v", err)
	}
	p.MaxOpen = number % 4 * (1 + number%3)
	o, w := play(t, p, in, chance)
	for len(w.open) > 0 {
		w.answer(0)
	}
	inOrder, _ := play(t, p, in, nil)
	o.Calls, inOrder.Calls = nil, nil
	if diff := cmp.Diff(inOrder, o); diff != "" {
		fail("a different order of results changes the run (-in order +by chance):\n%s", diff)
	}
	for n := range len(w.journal) + 1 {
		again, err := p.Pass(t.Context(), in, w.journal[:n])
		switch {
		case err != nil:
			fail("%v", err)
		case len(again.Calls) > len(w.calls)-n:
			fail("after %d calls it makes %d, of %d in all", n, len(again.Calls), len(w.calls))
		case len(again.Calls) > 0 && !reflect.DeepEqual(w.calls[n:n+len(again.Calls)], again.Calls):
			fail("after %d calls it makes others (-before +now):\n%s", n, cmp.Diff(w.calls[n:n+len(again.Calls)], again.Calls))
		case !slices.Equal(again.Logs, o.Logs[:min(len(again.Logs), len(o.Logs))]):
			fail("different logs after %d calls (-at last +now):\n%s", n, cmp.Diff(o.Logs, again.Logs))
		case len(again.Calls) == 0 && again.Status == scripts.Waiting && n == len(w.journal):
			fail("it waits for an available result")
		case n == len(w.journal):
			again.Calls = nil
			if diff := cmp.Diff(o, again); diff != "" {
				fail("the whole journal gives another outcome (-before +now):\n%s", diff)
			}
		}
	}
	return o, len(w.calls)
}

// FuzzScript passes any text through check, compiler and two passes. No step may panic, and a text that passes its
// check must compile.
func FuzzScript(f *testing.F) {
	f.Add("a := 1")
	f.Add(imports + `for k, v in {b: 1, a: 2} { volume.create(k, {size_gib: v}).err }`)
	f.Add("params := {a: {type: \"list\", of: \"int\", default: [1], min: 1}}\nimport(\"run\").output({a: import(\"run\").params.a})")
	f.Add("f := func(x, ...y) { return x ? f(y...) : [1, \"a\", 'c', 1.5][0:1] }\nf(1, [2, 3]...)")
	f.Add("t := import(\"text\"); t.re_find(\"(a|b)*\", \"abab\", -1); t.split_n(\"a,b\", \",\", 2)")
	f.Add("m := {a: {b: [1]}}; m.a.b[0] += 2 / m.a.b[0]; delete(m, \"a\"); m[\"\" + m] = copy(m) == m")
	f.Fuzz(func(t *testing.T, text string) {
		b := bundleOf(text)
		r := check.Check(b)
		for _, d := range r.Diagnostics {
			if d.Line < 1 || d.Column < 1 || d.Width < 1 || d.Message == "" {
				t.Errorf("%+v", d)
			}
			_ = d.String()
		}
		p, err := interpreter.Compile(b)
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
		w := &fixture{}
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
	w := &fixture{}
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

// BenchmarkSequentialWaits runs a script that waits for each of its calls. The number of replayed calls grows
// quadratically.
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
