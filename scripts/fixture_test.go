package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// fixture answers the calls of a run like a datacenter, from the calls alone.
type fixture struct {
	journal []scripts.Entry
	calls   []scripts.NewCall
	open    []int // indexes of entries without a result

	whim *rand.Rand // if set, results and failures are random
}

// take adds new calls to the journal.
func (w *fixture) take(t testing.TB, calls []scripts.NewCall) {
	t.Helper()
	for _, c := range calls {
		if c.Seq != len(w.journal)+1 {
			t.Fatalf("call %d follows call %d", c.Seq, len(w.journal))
		}
		for _, seq := range c.After {
			if seq < 1 || seq >= c.Seq {
				t.Fatalf("call %d depends on call %d", c.Seq, seq)
			}
		}
		w.open = append(w.open, len(w.journal))
		w.journal = append(w.journal, scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryOpen})
		w.calls = append(w.calls, c)
	}
}

// answer sets the result of the i-th open call. Calls with names that begin with fail- fail.
func (w *fixture) answer(i int) {
	n := w.open[i]
	w.open = append(w.open[:i], w.open[i+1:]...)
	c, e := w.calls[n], &w.journal[n]
	if strings.HasPrefix(c.Name, "fail-") || w.whim != nil && w.whim.IntN(12) == 0 {
		e.State, e.Error = scripts.EntryFailed, writ.Errorf(writ.CodeInjected, "told to fail")
		return
	}
	op, _ := catalog.Lookup(c.Operation)
	e.State, e.Values = scripts.EntrySucceeded, values(op.Result, c)
	if w.whim == nil {
		return
	}
	for _, f := range op.Result {
		switch {
		case !f.Required && w.whim.IntN(3) == 0:
			delete(e.Values, f.Name)
		case f.Type == catalog.String:
			e.Values[f.Name] = []string{"", "a", "7", "true", "x,y", "[1]"}[w.whim.IntN(6)]
		case f.Type == catalog.Int:
			e.Values[f.Name] = w.whim.Int64N(5)
		case f.Type == catalog.Bool:
			e.Values[f.Name] = w.whim.IntN(2) == 0
		}
	}
}

// values returns a result that fits a schema.
func values(s catalog.Schema, c scripts.NewCall) map[string]any {
	m := make(map[string]any)
	for _, f := range s {
		switch f.Type {
		case catalog.String:
			m[f.Name] = fmt.Sprintf("%s-%s-%d", f.Name, c.Name, c.Seq)
		case catalog.Int:
			m[f.Name] = int64(c.Seq)
			if given, ok := c.Args[f.Name].(int64); ok {
				m[f.Name] = given
			}
		case catalog.Bool:
			m[f.Name] = c.Seq%2 == 0
		case catalog.List:
			m[f.Name] = []any{}
		}
	}
	if c.Operation == "run.now" {
		m["unix_ms"] = int64(1_700_000_000_000)
	}
	return m
}

// ended reports whether one of the calls has its result.
func (w *fixture) ended(seqs []int) bool {
	for _, seq := range seqs {
		if w.journal[seq-1].State != scripts.EntryOpen {
			return true
		}
	}
	return false
}

// play runs a program to its end. Results arrive in random order if chance is set. A pass runs when the script waits
// for an arriving result.
func play(t testing.TB, p *interpreter.Program, in scripts.Inputs, chance *rand.Rand) (scripts.Outcome, *fixture) {
	t.Helper()
	w := &fixture{}
	return playIn(t, w, p, in, chance), w
}

func playIn(t testing.TB, w *fixture, p *interpreter.Program, in scripts.Inputs, chance *rand.Rand) scripts.Outcome {
	t.Helper()
	for range scripts.MaxCalls {
		o, err := p.Pass(t.Context(), in, w.journal)
		if err != nil {
			t.Fatal(err)
		}
		w.take(t, o.Calls)
		if o.Status != scripts.Waiting {
			return o
		}
		for !w.ended(o.Waiting) {
			i := 0
			if chance != nil {
				i = chance.IntN(len(w.open))
			}
			w.answer(i)
		}
	}
	t.Fatal("the script does not end")
	return scripts.Outcome{}
}

func bundleOf(text string) scripts.Bundle {
	return scripts.Bundle{Main: scripts.Source{Name: "test.tengo", Text: []byte(text)}}
}

func compile(t testing.TB, b scripts.Bundle) *interpreter.Program {
	t.Helper()
	p, err := interpreter.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everything returns inputs that allow every operation.
func everything() scripts.Inputs {
	in := scripts.Inputs{Run: "abc", Project: "shop", DatacenterName: "home", MaxCalls: scripts.MaxCalls}
	for _, op := range catalog.Operations() {
		in.Allow = append(in.Allow, op.Name())
	}
	return in
}

// first runs the first pass of a script.
func first(t testing.TB, text string) scripts.Outcome {
	t.Helper()
	o, err := compile(t, bundleOf(text)).Pass(t.Context(), everything(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const imports = `
image := import("image"); volume := import("volume"); network := import("network"); machine := import("machine")
container := import("container"); herodb := import("herodb"); node := import("node"); run := import("run")
`
