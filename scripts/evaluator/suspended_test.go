package evaluator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/cbor"
	"writ/internal/test/testenv"
	"writ/scripts"
)

// busy burns more fuel than a pass that is repeated instead of suspended.
const busy = `node := import("node"); run := import("run"); volume := import("volume")
for i := 0; i < 500; i++ {}
`

// waiting are scripts that wait in several ways.
var waiting = []string{
	busy + `for i := 0; i < 12; i++ { node.ping().err; run.log(i) }`,
	busy + `all := []; for i := 0; i < 6; i++ { all = append(all, node.facts()) }; for i, f in all { if f.err { run.log(i, f.err.message) } else { run.log(i, f.hostname) } }; node.ping().err`,
	busy + `a := volume.create("a", {size_gib: 1}); b := volume.create("b", {size_gib: 1}); run.log(b.path); run.log(a.path); volume.create("c", {size_gib: 1}).uid`,
	busy + `f := func(n) { return n == 0 ? "" : f(n - 1) + node.facts().hostname }; run.output({v: f(6)})`,
	`node := import("node"); for i := 0; i < 5; i++ { node.ping().err }`, // too quick to be suspended
}

// twoSides is a child's memory and its parent's records, without processes between them.
type twoSides struct {
	parent  journals
	child   *memory
	version uint64
}

func newTwoSides() *twoSides {
	return &twoSides{parent: journals{most: maxJournals, whole: keptWhole}, child: newMemory(func() time.Duration { return 0 })}
}

// end ends the suspended passes, like the end of a child.
func (s *twoSides) end() { s.child.suspended.dropUnless(func(*compiled) bool { return false }) }

// pass requests a pass like child.round. The answer may be that the child lacks data; then it gets all of it.
func (s *twoSides) pass(t testing.TB, b *scripts.Bundle, in scripts.Inputs, journal []scripts.Entry, yields bool) *scripts.Outcome {
	t.Helper()
	s.version++
	p := &passing{request: request{Program: b.Digest(), Bundle: b, Run: in.Run, Inputs: &in, Logged: in.Logged, Yields: yields}, journal: journal}
	load := func() {
		if p.load(t.Context()); p.err != nil {
			t.Fatal(p.err)
		}
	}
	if s.parent.base(&in, journal) == nil {
		load()
	}
	r := p.request
	r.Journal = s.parent.difference(r.Inputs, s.version, p.journal)
	for range 2 {
		frame, err := cbor.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var received request
		if err := cbor.Unmarshal(frame, &received); err != nil {
			t.Fatal(err)
		}
		a, err := s.child.answer(&received)
		if err != nil {
			t.Fatal(err)
		}
		if a.Stopped {
			s.parent.apply(in.Run, r.Journal)
			return nil
		}
		if a.Outcome != nil {
			s.parent.apply(in.Run, r.Journal)
			s.parent.dropEnded(in.Run, a.Outcome)
			if err := a.Outcome.Check(*p.request.Inputs, p.journal); err != nil {
				t.Fatal(err)
			}
			if frame, err = cbor.Marshal(a.Outcome); err != nil {
				t.Fatal(err)
			}
			o := new(scripts.Outcome)
			if err := cbor.Unmarshal(frame, o); err != nil {
				t.Fatal(err)
			}
			return o
		}
		s.version++
		load()
		r.Inputs = p.request.Inputs
		r.Journal = wholeJournal(r.Inputs, s.version, p.journal)
	}
	t.Fatal("the child lacks data that it was sent")
	return nil
}

// suspended returns the suspended pass of a run, or nil.
func (s *twoSides) suspended(run writ.RunID) any {
	for _, one := range s.child.suspended.list {
		if one.run == run {
			return one.pass
		}
	}
	return nil
}

func check(t testing.TB, s *suspendedPasses) {
	t.Helper()
	bytes := 0
	for i, one := range s.list {
		bytes += one.bytes
		if slices.ContainsFunc(s.list[:i], func(other *suspendedPass) bool { return other.run == one.run }) {
			t.Fatalf("run %s has two suspended passes", one.run)
		}
	}
	if bytes != s.bytes || bytes > s.most || len(s.list) > keptSuspended {
		t.Fatalf("%d suspended passes of %d bytes, counted as %d; want at most %d of %d", len(s.list), bytes, s.bytes, keptSuspended, s.most)
	}
}

// Promise: Evaluation and resumes: A child with suspended passes has the outcomes of a child without any.
// How: Random passes of several runs, with lost outcomes, results that are taken back, other inputs and evictions.
func TestChildWithSuspendedPassesEqualsReplay(t *testing.T) {
	var passes, resumed int
	var replay InProcess
	testenv.CheckProperty(t, func(rt *rapid.T) {
		draw := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) }
		s := newTwoSides()
		defer s.end()
		if draw("tight", 3) == 0 {
			s.child.suspended.most = 400 << 10 // two passes
		}
		if draw("long", 2) == 0 {
			s.parent.whole = draw("whole", 6)
			s.child.journals.whole = s.parent.whole
		}
		type run struct {
			bundle  scripts.Bundle
			inputs  scripts.Inputs
			journal []scripts.Entry
		}
		runs := make([]*run, 4)
		for i := range runs {
			runs[i] = &run{
				bundle: scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(waiting[draw("script", len(waiting))])}}.WithDigest(),
				inputs: scripts.Inputs{Run: writ.RunID(fmt.Sprint(i)), Project: "p", Allow: []string{"node.ping", "node.facts", "volume.create"}, MaxCalls: 20},
			}
		}
		for range 40 {
			r := runs[draw("run", len(runs))]
			want, err := replay.Pass(t.Context(), r.bundle, r.inputs, r.journal)
			if err != nil {
				t.Fatal(err)
			}
			before := s.suspended(r.inputs.Run)
			in, journal := r.inputs, r.journal
			if in.Ended > 0 && draw("earlier", 2) == 0 {
				in.First = min(draw("first", in.Ended+1), len(journal))
				in.Earlier = func(context.Context) ([]scripts.Entry, error) { return journal[:in.First], nil }
			}
			got := s.pass(t, &r.bundle, in, journal[in.First:], false)
			passes++
			if before != nil && before == s.suspended(r.inputs.Run) {
				resumed++
			}
			if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("run %s after %d calls (-replay +child):\n%s", r.inputs.Run, len(r.journal), diff)
			}
			check(t, &s.child.suspended)
			switch draw("next", 30) {
			case 0: // the outcome was not stored
				continue
			case 1:
				r.inputs.MaxCalls = 2 + draw("max calls", 20)
			case 2:
				s.end()
				*s.child = *newMemory(s.child.used)
				s.child.journals.whole = s.parent.whole
			case 3:
				r.journal = nil
				r.inputs.Resumes++
			case 4:
				s.parent.forget(r.inputs.Run)
			}
			r.inputs.Logged += len(got.Logs)
			journal = slices.Clone(r.journal)
			if slices.ContainsFunc(journal[:min(r.inputs.Ended, len(journal))], func(e scripts.Entry) bool { return e.State == scripts.EntryFailed }) && draw("resumed", 8) == 0 {
				r.inputs.Ended = 0
				r.inputs.Resumes++
			}
			for _, c := range got.Calls {
				journal = append(journal, scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryOpen})
			}
			for i := range journal {
				switch e := &journal[i]; {
				case e.State == scripts.EntryOpen && draw("result", 6) == 0:
					e.State, e.Error = scripts.EntryFailed, writ.Errorf(writ.CodeInjected, "told to fail")
				case e.State == scripts.EntryOpen && draw("result", 2) == 0:
					e.State, e.Values = scripts.EntrySucceeded, map[string]any{"hostname": fmt.Sprint("h", i), "path": "p", "uid": "u"}
				case e.State == scripts.EntryFailed && i >= r.inputs.Ended && draw("taken back", 6) == 0:
					e.State, e.Error = scripts.EntryOpen, nil
				}
			}
			r.journal = journal
			for r.inputs.Ended = min(r.inputs.Ended, len(journal)); r.inputs.Ended < len(journal) && journal[r.inputs.Ended].State != scripts.EntryOpen; {
				r.inputs.Ended++
			}
		}
	})
	t.Logf("%d of %d passes were resumed", resumed, passes)
	if resumed < passes/10 {
		t.Error("too few passes were resumed to prove anything")
	}
}

// A pass that is stopped after its quantum loses its suspended pass. The next pass begins anew.
func TestStoppedPassIsNotSuspended(t *testing.T) {
	s := newTwoSides()
	defer s.end()
	cpu := time.Duration(0)
	s.child.used = func() time.Duration { cpu += quantum; return cpu } // each look finds that the quantum is used up
	b := &scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(busy + `if node.ping().err == undefined { for i := 0; i < 100000; i++ { "a" + i } }`)}}
	in := scripts.Inputs{Run: "r", Allow: []string{"node.ping"}, MaxCalls: 20}
	s.pass(t, b, in, nil, false) // the child learns that the program burns enough
	o := s.pass(t, b, in, nil, false)
	if s.suspended("r") == nil {
		t.Fatal("the first pass is not suspended")
	}
	journal := []scripts.Entry{{Seq: 1, Hash: o.Calls[0].Hash, State: scripts.EntrySucceeded}}
	if o := s.pass(t, b, in, journal, true); o == nil {
		if s.suspended("r") != nil {
			t.Error("a stopped pass is suspended")
		}
	} else {
		t.Log("the pass has ended before its quantum was checked")
	}
	if o := s.pass(t, b, in, journal, false); o.Status != scripts.Completed {
		t.Errorf("%+v", o)
	}
}

// Promise: Limits: The suspended passes of a child have at most 32 MiB and 128 VMs.
// How: Each estimate counts the VM and the memory of all work so far; the least recently used pass is dropped first.
func TestSuspendedPassesHaveALimit(t *testing.T) {
	s := newTwoSides()
	defer s.end()
	b := &scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(waiting[0])}}
	in := scripts.Inputs{Allow: []string{"node.ping"}, MaxCalls: 20}
	pass := func(run string) {
		in.Run = writ.RunID(run)
		s.pass(t, b, in, nil, false)
	}
	for i := range 2 * keptSuspended {
		pass(fmt.Sprint(i))
		check(t, &s.child.suspended)
	}
	if n := len(s.child.suspended.list); n != keptSuspended {
		t.Errorf("%d passes are suspended, want %d", n, keptSuspended)
	}
	if s.suspended("0") != nil || s.suspended(writ.RunID(fmt.Sprint(2*keptSuspended-1))) == nil {
		t.Error("the newest pass was dropped instead of the oldest")
	}
	heavy := &scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(busy + `x := "x"; for len(x) < 100000 { x += x }; all := []; for i := 0; i < 80; i++ { all = append(all, x + i) }; node.ping().err`)}}
	for i := range 20 {
		in.Run = writ.RunID(fmt.Sprint("heavy", i))
		s.pass(t, heavy, in, nil, false)
		check(t, &s.child.suspended)
	}
	if n := len(s.child.suspended.list); n > 3 {
		t.Errorf("%d passes with 10 MiB each are suspended", n)
	}
	heap := uint64(smallHeap - 1)
	s.child.suspended.heap = func() uint64 { return heap }
	for i := range 8 {
		in.Run = writ.RunID(fmt.Sprint("roomy", i))
		s.pass(t, heavy, in, nil, false)
	}
	if n, bytes := len(s.child.suspended.list), s.child.suspended.bytes; n < 8 || bytes > looseSuspended {
		t.Errorf("%d passes of %d bytes are suspended while the child uses little memory", n, bytes)
	}
	heap = smallHeap
	in.Run = "tight"
	s.pass(t, heavy, in, nil, false)
	check(t, &s.child.suspended)
	for i := range keptPrograms { // the program is dropped, and with it what keeps it in memory
		in.Run = "other"
		s.pass(t, &scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(strings.Repeat(" ", i) + "a := 1")}}, in, nil, false)
	}
	if n := len(s.child.suspended.list); n != 0 {
		t.Errorf("%d passes of dropped programs are suspended", n)
	}
}

// A pass has the program, the inputs and the journal of its suspended pass, or begins anew.
func TestSuspendedPassOfOtherDataIsDropped(t *testing.T) {
	p := new(programs)
	b := scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(waiting[0])}}
	c := p.compile(writ.Digest{1}, &b)
	other := p.compile(writ.Digest{2}, &b)
	in := &scripts.Inputs{Run: "r", Allow: []string{"node.ping"}, MaxCalls: 20}
	fewer := *in
	fewer.MaxCalls = 3
	for name, next := range map[string]struct {
		c       *compiled
		in      *scripts.Inputs
		d       difference
		resumed bool
	}{
		"the same":        {c, in, difference{Base: 1, Version: 2, Count: 1}, true},
		"another program": {other, in, difference{Base: 1, Version: 2, Count: 1}, false},
		"other inputs":    {c, &fewer, difference{Base: 1, Version: 2, Count: 1}, false},
		"another journal": {c, in, difference{Base: 3, Version: 4, Count: 1}, false},
	} {
		s := suspendedPasses{most: maxSuspended}
		evaluate := func(c *compiled, in *scripts.Inputs, d difference, journal []scripts.Entry) scripts.Outcome {
			if _, err := c.program.Pass(t.Context(), *in, journal); err != nil { // it burns enough
				t.Fatal(err)
			}
			o, err := s.evaluate(t.Context(), s.take("r"), c, in, &d, journal, 0)
			if err != nil || o.Status != scripts.Waiting || len(s.list) != 1 {
				t.Fatalf("%s: %+v %v, %d suspended passes", name, o, err, len(s.list))
			}
			return o
		}
		call := evaluate(c, in, difference{Version: 1}, nil).Calls[0]
		before := s.list[0].pass
		journal := []scripts.Entry{{Seq: 1, Hash: call.Hash, State: scripts.EntryOpen}}
		next.d.Entries = journal
		evaluate(next.c, next.in, next.d, journal)
		if resumed := s.list[0].pass == before; resumed != next.resumed {
			t.Errorf("%s: the suspended pass continues: %v", name, resumed)
		}
		s.take("r").pass.Drop()
	}
}

// A script that does not compile has no suspended pass.
func TestFailedProgramIsNotSuspended(t *testing.T) {
	s := newTwoSides()
	defer s.end()
	b := &scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(waiting[0])}}
	for range 2 {
		s.pass(t, b, scripts.Inputs{Run: "r", Allow: []string{"node.ping"}, MaxCalls: 20}, nil, false)
	}
	c := &compiled{failure: writ.Errorf(writ.CodeScriptInvalid, "no")}
	for _, before := range []*suspendedPass{nil, s.child.suspended.take("r")} {
		o, err := s.child.suspended.evaluate(t.Context(), before, c, &scripts.Inputs{}, &difference{}, nil, 0)
		if err != nil || o.Status != scripts.Failed || len(s.child.suspended.list) != 0 {
			t.Errorf("%+v %v", o, err)
		}
	}
}
