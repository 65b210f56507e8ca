package evaluator_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// onlyChild returns the pid of the pool's only child.
func onlyChild(t *testing.T, pool *evaluator.Pool) int {
	t.Helper()
	idle := pool.Idle()
	if len(idle) != 1 {
		t.Fatalf("%d idle children, want 1", len(idle))
	}
	return idle[0].Pid
}

// agree runs a pass in a child and in this process, and compares the results.
func agree(t *testing.T, pool *evaluator.Pool, inputs scripts.Inputs, b scripts.Bundle, journal []scripts.Entry) scripts.Outcome {
	t.Helper()
	inside, err := new(evaluator.InProcess).Pass(t.Context(), b, inputs, journal)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := pool.Pass(t.Context(), b, inputs, journal)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inside, outside); diff != "" {
		t.Fatalf("after %d entries this process and a child differ (-this +child):\n%s", len(journal), diff)
	}
	return outside
}

const handling = `
node := import("node")
run := import("run")
for i := 0; i < 5; i++ {
	h := node.facts()
	if h.err { run.log(i, h.err.message) } else { run.log(i, h.hostname) }
}
node.ping().err`

// Promise: Evaluation and resumes: A child never evaluates a run against another run's history.
// How: Parent and child cache the same journals by the same rules and compare version and count; on a mismatch the
// parent sends the whole journal.
// Also: TestChildFollowsEveryChangeOfInputs, TestBothSidesHaveTheSameJournals, TestDifferenceNeedsItsBaseJournal.
func TestChildFollowsEveryChangeOfAJournal(t *testing.T) {
	pool := newPool(t, 1)
	inputs := func(run string) scripts.Inputs {
		in := everything
		in.Run = writ.RunID(run)
		return in
	}
	journals := map[string][]scripts.Entry{"a": nil, "b": nil}
	advance := func(run string, failed bool) {
		for _, c := range agree(t, pool, inputs(run), bundle(handling), journals[run]).Calls {
			e := succeeded(c)
			if failed {
				e = scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryFailed, Error: writ.Errorf(writ.CodeInjected, "told to fail")}
			}
			journals[run] = append(journals[run], e)
		}
	}
	for i := range 3 { // two runs in turn, of one program
		advance("a", i == 1)
		advance("b", i == 2)
	}
	child := onlyChild(t, pool)

	a := journals["a"]
	a[1].Error = writ.Errorf(writ.CodeInternal, "failed in another way") // changed in place: only values must not be
	agree(t, pool, inputs("a"), bundle(handling), a)
	a[1].State, a[1].Error = scripts.EntryOpen, nil // resumed
	if o := agree(t, pool, inputs("a"), bundle(handling), a[:2]); !slices.Equal(o.Waiting, []int{2}) {
		t.Errorf("an entry that is open again: %+v", o)
	}
	a[1].State, a[1].Values = scripts.EntrySucceeded, map[string]any{"hostname": "new"}
	if o := agree(t, pool, inputs("a"), bundle(handling), a); !slices.Contains(o.Logs, "1 new") {
		t.Errorf("an entry with another result: %v", o.Logs)
	}
	reversed := slices.Clone(a)
	slices.Reverse(reversed)
	agree(t, pool, inputs("a"), bundle(handling), reversed)
	agree(t, pool, inputs("b"), bundle(handling), a) // the journal of another run
	agree(t, pool, inputs("b"), bundle(handling), journals["b"])
	if now := onlyChild(t, pool); now != child {
		t.Errorf("child %d took the place of %d", now, child)
	}
	pool.Misremember()
	advance("a", false)
	if now := onlyChild(t, pool); now != child {
		t.Errorf("a pool that is wrong about child %d needs another one", child)
	}
}

// TestChildFollowsEveryChangeOfInputs changes one field after the other between the passes of a waiting run.
func TestChildFollowsEveryChangeOfInputs(t *testing.T) {
	pool := newPool(t, 1)
	script := bundle(`run := import("run"); run.log(run.params, run.project, run.datacenter); import("volume").create("v", {size_gib: 1})
import("node").facts().hostname`)
	in := everything
	first := agree(t, pool, in, script, nil).Calls[0]
	journal := []scripts.Entry{{Seq: 1, Hash: first.Hash, State: scripts.EntryOpen}}
	child := onlyChild(t, pool)
	big := map[string]any{"zones": strings.Repeat("b", 10_000)} // above the limit for stored inputs
	for _, change := range []func(){
		func() {},
		func() { in.Params = map[string]any{"count": int64(3)} },
		func() { in.Params = big },
		func() { in.Params = nil },
		func() { in.Project = "other" },
		func() { in.DatacenterName = "away" },
		func() { in.MaxCalls = 1 },
		func() { in.MaxCalls = 100 },
		func() { in.Allow = []string{"volume.create"} },
		func() { in.Allow = everything.Allow },
		func() { in.Logged = 1 },
		func() { in.Logged = 2 },
		func() { in.Logged = 0 },
	} {
		change()
		agree(t, pool, in, script, journal)
		agree(t, pool, in, script, journal)
		pool.Misremember()
		agree(t, pool, in, script, journal)
	}
	if now := onlyChild(t, pool); now != child {
		t.Errorf("child %d took the place of %d", now, child)
	}
}

// TestChildKeepsManyRunsWithinItsMemory has many waiting runs with big journals, then one script that uses its maximum.
//
// Promise: Speed and storage: Cached journals do not reduce the memory limit of a script.
// How: They are bounded by their size in memory.
func TestChildKeepsManyRunsWithinItsMemory(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	inputs := everything
	inputs.MaxCalls = scripts.MaxCalls
	const calls = 1_000
	script := bundle(fmt.Sprintf(`node := import("node"); for i := 0; i < %d; i++ { node.ping() }; node.facts().hostname`, calls))
	o, err := pool.Pass(t.Context(), script, inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	var journal []scripts.Entry
	for _, c := range o.Calls {
		e := succeeded(c) // small values have the largest overhead
		if c.Seq > calls {
			e.State, e.Values = scripts.EntryOpen, nil
		}
		journal = append(journal, e)
	}
	child := onlyChild(t, pool)
	for round := range 2 {
		for i := range 100 {
			inputs.Run = writ.RunID(fmt.Sprint(i))
			o, err := pool.Pass(t.Context(), script, inputs, journal)
			if err != nil || o.Status != scripts.Waiting {
				t.Fatalf("round %d, run %d: %+v %v", round, i, o, err)
			}
		}
	}
	o, err = pool.Pass(t.Context(), bundle(`all := []; for { all = append(all, "x" + len(all)) }`), inputs, nil)
	if err != nil || o.Status != scripts.Failed || o.Failure.Code != writ.CodeScriptLimit {
		t.Errorf("a script without end: %+v %v, want %s", o, err, writ.CodeScriptLimit)
	}
	// A slow machine has a second child for long passes.
	if !slices.ContainsFunc(pool.Idle(), func(p *os.Process) bool { return p.Pid == child }) {
		t.Errorf("child %d lives no more", child)
	}
}

// Promise: Speed and storage: A child receives each result of a run once, however often the script waits.
// How: It caches the journals of runs and receives only new entries.
func TestChildReceivesEachResultOnce(t *testing.T) {
	pool := newPool(t, 1)
	waits(t, pool, 1) // starts the child
	child := onlyChild(t, pool)
	received := pool.CountEntries()
	const calls = 200
	waits(t, pool, calls)
	if now := onlyChild(t, pool); now != child {
		t.Fatalf("child %d took the place of %d", now, child)
	}
	if n := received(); n != calls {
		t.Errorf("the child received %d entries for a journal of %d", n, calls)
	}
}

// The child of a run dies while its pass is suspended. The next child begins the pass anew.
func TestSuspendedPassEndsWithItsChild(t *testing.T) {
	pool := newPool(t, 1)
	script := bundle(`node := import("node"); run := import("run")
for i := 0; i < 1000; i++ {}
for i := 0; i < 12; i++ { h := node.facts(); run.log(i, h.err ? h.err.message : h.hostname) }
run.output({n: 1 + 1})`)
	inputs := everything
	var journal []scripts.Entry
	var child int
	for pass := range 20 {
		o := agree(t, pool, inputs, script, journal)
		if o.Status == scripts.Completed {
			return
		}
		inputs.Logged += len(o.Logs)
		for _, c := range o.Calls {
			journal = append(journal, succeeded(c))
		}
		switch pass {
		case 5:
			child = onlyChild(t, pool)
			killOnlyChild(t, pool)
		case 6:
			if onlyChild(t, pool) == child {
				t.Fatal("the child has not died")
			}
		}
	}
	t.Fatal("the run does not end")
}

// Scripts hold as much memory as they can while their passes are suspended. The child lives, and other runs get their
// outcomes.
//
// Promise: Limits: Suspended passes of hostile scripts do not end their child.
func TestSuspendedPassesLeaveRoomForOthers(t *testing.T) {
	pool := newPool(t, 1)
	for i, text := range []string{
		`x := "x"; for len(x) < 100000 { x += x }; all := []; for i := 0; i < 80; i++ { all = append(all, x + i) }`,
		`all := []; for i := 0; i < 10000; i++ { all = append(all, {a: 1, b: [i]}) }`,
		`all := []; for i := 0; i < 12000; i++ { x := i; all = append(all, func() { return x }) }`,
		`all := {}; for i := 0; i < 12000; i++ { all["key" + i] = i }`,
		`f := func(n) { a := [n, n]; return n == 0 ? import("node").ping().err : [f(n - 1), a] }; for i := 0; i < 5000; i++ {}; f(600)`,
	} {
		for run := range 12 {
			inputs := everything
			inputs.Run = writ.RunID(fmt.Sprint("heavy-", i, "-", run))
			o, err := pool.Pass(t.Context(), bundle(text+"\nimport(\"node\").ping().err"), inputs, nil)
			if err != nil || o.Status != scripts.Waiting {
				t.Fatalf("script %d, run %d: %+v %v", i, run, o.Failure, err)
			}
			finish(t, pool, bundle(facts))
		}
	}
}
