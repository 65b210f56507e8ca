package scripts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// sequel plays the passes of one run both ways: it continues a suspended pass if there is one, and compares the outcome
// with the outcome of a whole pass over the same journal.
type sequel struct {
	t         testing.TB
	program   *interpreter.Program
	inputs    scripts.Inputs
	before    []scripts.Entry // the journal of the last pass
	suspended *interpreter.Suspended

	resumed, refused, began int
}

// pass runs a pass.
func (s *sequel) pass(journal []scripts.Entry) scripts.Outcome {
	s.t.Helper()
	want, err := s.program.Pass(s.t.Context(), s.inputs, journal)
	if err != nil {
		s.t.Fatal(err)
	}
	var got scripts.Outcome
	resumed := false
	if s.suspended != nil {
		got, s.suspended, resumed, err = s.suspended.Resume(s.t.Context(), s.inputs.Logged, changes(s.before, journal), len(journal))
		s.resumed++
		if !resumed {
			s.refused++
		}
	}
	if !resumed {
		s.began++
		got, s.suspended, err = s.program.Begin(s.t.Context(), s.inputs, journal)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Fatalf("resumed: %v; after %d calls (-whole pass +suspended pass):\n%s", resumed, len(journal), diff)
	}
	if (s.suspended != nil) != (got.Status == scripts.Waiting) {
		s.t.Fatalf("a pass that is %s has a suspended pass: %v", got.Status, s.suspended != nil)
	}
	s.before = slices.Clone(journal)
	return got
}

// drop forgets the suspended pass, like a child that has ended.
func (s *sequel) drop() {
	if s.suspended != nil {
		s.suspended.Drop()
		s.suspended = nil
	}
}

// changes returns the entries of a journal that differ from an earlier journal of the run.
func changes(before, journal []scripts.Entry) (changed []scripts.Entry) {
	for i, e := range journal {
		if i >= len(before) || !cmp.Equal(before[i], e) {
			changed = append(changed, e)
		}
	}
	return changed
}

// draws is a source of random numbers that shrinks.
func draws(t *rapid.T, label string, n int) int { return rapid.IntRange(0, n-1).Draw(t, label) }

// run plays a run to its end. Results arrive in random order. Between passes the suspended pass may be dropped, results
// may be taken back, and a pass may be repeated, with the same journal or with the journal before its calls.
func (s *sequel) run(rt *rapid.T, seed uint64) scripts.Outcome {
	s.t.Helper()
	w := &fixture{whim: rand.New(rand.NewPCG(seed, 1))}
	defer s.drop()
	for range 200 {
		o := s.pass(w.journal)
		if draws(rt, "logged", 3) == 0 { // otherwise the lines of this pass are not stored, and the next one returns them again
			s.inputs.Logged += len(o.Logs)
		}
		switch draws(rt, "disturbance", 12) {
		case 0:
			s.drop()
		case 1:
			s.pass(w.journal) // the calls of this pass were not stored
		case 2: // a result is taken back, or a failed call is repeated
			if ended := s.ended(w); len(ended) > 0 {
				n := ended[draws(rt, "taken back", len(ended))]
				w.journal[n].State, w.journal[n].Values, w.journal[n].Error = scripts.EntryOpen, nil, nil
				w.open = append(w.open, n)
			}
		}
		w.take(s.t, o.Calls)
		if o.Status != scripts.Waiting {
			return o
		}
		for n := draws(rt, "more results", 3); n > 0 && len(w.open) > 0; n-- {
			w.answer(draws(rt, "arrives", len(w.open)))
		}
		if draws(rt, "early", 4) == 0 {
			s.pass(w.journal) // nothing that the script waits for
		}
		for !w.ended(o.Waiting) {
			w.answer(draws(rt, "arrives", len(w.open)))
		}
	}
	rt.Skip("the script makes too many passes")
	return scripts.Outcome{}
}

func (s *sequel) ended(w *fixture) (all []int) {
	for n := range w.journal {
		if w.journal[n].State != scripts.EntryOpen {
			all = append(all, n)
		}
	}
	return all
}

// Promise: Evaluation and resumes: A pass that continues where the last pass waited has the outcome of a full replay.
// How: Random scripts run both ways, with random arrivals, dropped suspended passes and results that are taken back.
func TestSuspendedPassEqualsReplay(t *testing.T) {
	var resumed, refused, began, ended int
	testenv.CheckProperty(t, func(rt *rapid.T) {
		bundle := randomScript(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "script"), 0)))
		p, err := interpreter.Compile(bundle)
		if err != nil {
			rt.Fatalf("%v\n%s", err, bundle.Main.Text)
		}
		p.MaxOpen = draws(rt, "open calls", 6) // without a limit at 0
		in := everything()
		in.Params = map[string]any{"count": int64(2), "zones": []any{"a", "b"}}
		in.MaxCalls = 40
		if draws(rt, "prune", 3) == 0 {
			in.Prune = []string{"volume/gone-0", "machine/gone-1", "volume/v-1", "volume/gone-2"}
		}
		s := &sequel{t: t, program: p, inputs: in}
		if s.run(rt, rapid.Uint64().Draw(rt, "results")).Status == scripts.Completed {
			ended++
		}
		resumed, refused, began = resumed+s.resumed, refused+s.refused, began+s.began
	})
	t.Logf("%d passes were resumed, %d of them refused, %d began anew; %d runs reached their end", resumed, refused, began, ended)
	if resumed-refused < 100 || refused < 10 || ended < 10 {
		t.Error("too few passes were resumed, refused or reached their end to prove anything")
	}
}

// Each script waits in another place of the interpreter. The run logs after each wait, so that a value that was read
// wrongly shows.
func TestSuspendedPassWaitsAnywhere(t *testing.T) {
	for _, text := range []string{
		`times := import("times"); for i := 0; i < 4; i++ { run.log(times.time_unix(run.now()), i) }`,
		`for i := 0; i < 4; i++ { m := machine.create("m" + i, {cpus: 1, memory_mib: 64}); run.log(m.address, m.err) }`,
		`all := []; for i := 0; i < 5; i++ { all = append(all, volume.create("v" + i, {size_gib: 1})) }; for v in all { run.log(v.uid); v.size_gib }`,
		`f := func(n) { return n == 0 ? node.facts().hostname : f(n - 1) + node.facts().hostname }; run.log(f(9))`,
		`m := {b: node.facts(), a: node.facts()}; for k, v in m { m[k + "x"] = v.hostname; run.log(k, v.cpus) }; run.output({v: string(m)})`,
		`enum := import("enum"); run.log(enum.map([1, 2, 3], func(k, v) { return node.facts().cpus + v }))`,
		`for n in ["fail-a", "b", "fail-c"] { v := volume.create(n, {size_gib: 1}); if v.err { run.log(v.err.code) } else { run.log(v.path) } }`,
		`x := volume.create("fail-a", {size_gib: 1}); node.ping().err; x.path`,
		`container.create("c", {image: "docker.io/library/a:1"}).uid`,
		`run.params.zones[0] = node.facts().hostname; run.log(run.params.zones); node.ping().err; run.log(run.params)`,
		`format("%v %v", node.facts().hostname, node.facts().cpus) == node.facts().hostname`,
		`for i := 0; i < 1100; i++ { run.log(i); if i % 300 == 0 { node.ping().err } }`,
		`a := node.ping(); b := node.ping(); if b.err == a.err { run.log("both") }; 1 / (node.facts().cpus - node.facts().cpus)`,
		`x := 0; for { x += 1; if x % 100000 == 0 { node.ping().err } }`,
	} {
		p := compile(t, bundleOf(imports+text))
		for seed := range uint64(20) {
			in := everything()
			in.Params = map[string]any{"zones": []any{"a", "b"}}
			s := &sequel{t: t, program: p, inputs: in}
			w := &fixture{}
			chance := rand.New(rand.NewPCG(seed, 0))
			for o := s.pass(nil); ; o = s.pass(w.journal) {
				if w.take(t, o.Calls); o.Status != scripts.Waiting || t.Failed() {
					break
				}
				if chance.IntN(2) == 0 {
					s.inputs.Logged += len(o.Logs)
				}
				for !w.ended(o.Waiting) {
					w.answer(chance.IntN(len(w.open)))
				}
			}
			if s.refused > 0 {
				t.Errorf("%s\n%d of %d suspended passes were refused", text, s.refused, s.resumed)
			}
			if s.drop(); strings.Contains(text, "for {") {
				break // it ends with its fuel, after many passes
			}
		}
	}
}

// A journal that the suspended pass cannot have makes it refuse, so that a whole pass finds what is wrong.
func TestSuspendedPassRefusesOtherJournals(t *testing.T) {
	p := compile(t, bundleOf(imports+`a := node.ping(); b := node.facts(); a.err; c := node.ping(); b.hostname; c.err`))
	in := everything()
	w := &fixture{}
	begin := func() *interpreter.Suspended {
		w = &fixture{}
		o, _, err := p.Begin(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.take(t, o.Calls)
		w.answer(0)
		o, s, err := p.Begin(t.Context(), in, w.journal)
		if err != nil || o.Status != scripts.Waiting || o.Waiting[0] != 2 {
			t.Fatalf("%+v %v", o, err)
		}
		w.take(t, o.Calls)
		return s
	}
	resume := func(logged int, changed []scripts.Entry, count int) bool {
		t.Helper()
		_, next, ok, err := begin().Resume(t.Context(), logged, changed, count)
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			next.Drop()
		}
		return ok
	}
	_ = begin()
	third := w.journal[2]
	if !resume(0, []scripts.Entry{third}, 3) {
		t.Fatal("the right journal is refused")
	}
	other := third
	other.Hash[0]++
	first := w.journal[0]
	first.State = scripts.EntryOpen
	big := scripts.Entry{Seq: 2, Hash: w.journal[1].Hash, State: scripts.EntrySucceeded, Values: map[string]any{"x": strings.Repeat("x", scripts.MaxJournal)}}
	for name, changed := range map[string][]scripts.Entry{
		"without the new call":   nil,
		"with another call":      {other},
		"with a call taken back": {first, third},
		"with a call too many":   {third, {Seq: 4, Hash: third.Hash, State: scripts.EntryOpen}},
		"that is too big":        {big, third},
	} {
		if resume(0, changed, 2+min(len(changed), 1)) {
			t.Errorf("a journal %s is accepted", name)
		}
	}
	if resume(0, []scripts.Entry{third}, 4) || resume(0, nil, 3) {
		t.Error("a journal with a gap is accepted")
	}
	if in.Logged = 3; resume(2, []scripts.Entry{third}, 3) {
		t.Error("a pass that lacks log lines is accepted")
	}
}

// A pass that is aborted leaves neither a suspended pass nor an outcome, and its program still works.
func TestAbortedPassIsNotSuspended(t *testing.T) {
	p := compile(t, bundleOf(imports+`node.ping().err; for { }`))
	in := everything()
	w := &fixture{}
	why := errors.New("enough")
	for range 3 {
		o, s, err := p.Begin(t.Context(), in, w.journal[:0])
		if err != nil || s == nil {
			t.Fatal(o, err)
		}
		w = &fixture{}
		w.take(t, o.Calls)
		w.answer(0)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if _, next, _, err := s.Resume(ctx, 0, w.journal, 1); !errors.Is(err, why) || next != nil {
			t.Fatalf("an aborted pass: %v, suspended: %v", err, next != nil)
		}
	}
	if o, err := p.Pass(t.Context(), in, nil); err != nil || o.Status != scripts.Waiting {
		t.Fatal(o, err)
	}
}

// BenchmarkSuspendedWaits is BenchmarkSequentialWaits with suspended passes.
func BenchmarkSuspendedWaits(b *testing.B) {
	for _, calls := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			p := compile(b, bundleOf(fmt.Sprintf(`node := import("node"); for i := 0; i < %d; i++ { node.ping().err }`, calls)))
			in := everything()
			for b.Loop() {
				w := &fixture{}
				o, s, err := p.Begin(b.Context(), in, nil)
				ok := true
				for ok && err == nil && s != nil {
					w.take(b, o.Calls)
					w.answer(0)
					o, s, ok, err = s.Resume(b.Context(), 0, w.journal[len(w.journal)-1:], len(w.journal))
				}
				if !ok || err != nil || o.Status != scripts.Completed {
					b.Fatal(o)
				}
			}
		})
	}
}

// A pass that waits because of its open calls goes on when the oldest of them has ended. A script at the limit of its
// signature fails at once.
func TestPassWithManyOpenCallsWaits(t *testing.T) {
	p := compile(t, bundleOf(imports+`for i := 0; i < 7; i++ { node.ping() }; run.log("end")`))
	p.MaxOpen = 3
	in := everything()
	s := &sequel{t: t, program: p, inputs: in}
	w := &fixture{}
	for made := 3; made <= 7; made++ {
		o := s.pass(w.journal)
		if w.take(t, o.Calls); len(w.calls) != made {
			t.Fatalf("%d calls are made with %d results, want %d", len(w.calls), made-3, made)
		}
		if made < 7 && (o.Status != scripts.Waiting || o.Waiting[0] != made-2) || made == 7 && o.Status != scripts.Completed {
			t.Fatalf("after %d calls: %+v", made, o)
		}
		if made < 7 && s.pass(w.journal).Calls != nil {
			t.Fatal("it makes a call while the oldest call is open")
		}
		w.answer(0)
	}
	if s.refused > 0 {
		t.Errorf("%d suspended passes were refused", s.refused)
	}
	in.MaxCalls = 3
	s = &sequel{t: t, program: p, inputs: in}
	if o := s.pass(nil); o.Status != scripts.Failed || o.Failure.Code != writ.CodeScriptLimit {
		t.Errorf("after the limit of its signature: %+v", o)
	}
}

// After a resume, early calls may be open again. A pass then makes no new calls until the first of them has ended.
func TestPassWithReopenedCallsWaits(t *testing.T) {
	p := compile(t, bundleOf(imports+`for i := 0; i < 5; i++ { node.ping() }; node.ping().err; for i := 0; i < 3; i++ { node.ping() }`))
	in := everything()
	s := &sequel{t: t, program: p, inputs: in}
	w := &fixture{}
	w.take(t, s.pass(nil).Calls)
	for seq := 3; seq <= 6; seq++ { // calls 1 and 2 are open
		w.answer(2)
	}
	p.MaxOpen = 4
	s = &sequel{t: t, program: p, inputs: in}
	for seq := 1; seq <= 2; seq++ {
		if o := s.pass(w.journal); len(o.Calls) > 0 || o.Status != scripts.Waiting || o.Waiting[0] != seq {
			t.Fatalf("while call %d is open: %+v", seq, o)
		}
		w.answer(0)
	}
	if o := s.pass(w.journal); len(o.Calls) != 3 || o.Status != scripts.Completed || s.refused > 0 {
		t.Fatalf("after the early calls: %+v, %d suspended passes were refused", o, s.refused)
	}
}
