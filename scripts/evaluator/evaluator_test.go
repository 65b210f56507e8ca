package evaluator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/evaluator"
)

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "liar":
		os.Exit(lie())
	case filepath.Base(os.Args[0]) == "moody":
		os.Exit(evaluator.ServeMoodily())
	case evaluator.IsChild(os.Args):
		os.Exit(evaluator.Main())
	case len(os.Args) == 2 && os.Args[1] == "glutton":
		os.Exit(glutton())
	case len(os.Args) == 2 && os.Args[1] == "pauper":
		os.Exit(pauper())
	case len(os.Args) == 3 && os.Args[1] == "intruder":
		os.Exit(intrude(os.Args[2], true))
	case len(os.Args) == 3 && os.Args[1] == "visitor":
		os.Exit(intrude(os.Args[2], false))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(builtHere)
		os.Exit(code)
	}))
}

// glutton is a child that allocates memory until it is stopped.
func glutton() int {
	if _, err := evaluator.Confine(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var all [][]byte
	for range 1024 {
		all = append(all, slices.Repeat([]byte{1}, 1<<20))
	}
	return len(all) >> 20
}

// builtHere is the directory of a binary that was built for these tests, if any.
var builtHere string

// plainChild is this test binary built without the race detector. A binary with it does not start under the memory
// limit.
var plainChild = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return os.Executable()
	}
	var err error
	if builtHere, err = os.MkdirTemp("", "evaluator"); err != nil {
		return "", err
	}
	binary := filepath.Join(builtHere, "child")
	out, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

func childBinary(t testing.TB) string {
	t.Helper()
	binary, err := plainChild()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func newPool(t testing.TB, size int) *evaluator.Pool {
	t.Helper()
	p := &evaluator.Pool{Executable: childBinary(t), Size: size}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// newMoodyPool returns a pool whose children obey a comment in the script: "die", "spin" or "hang". They are not
// confined.
func newMoodyPool(t *testing.T) *evaluator.Pool { return newPoolOf(t, "moody") }

// newPoolOf returns a pool with one child, which is this program under another name.
func newPoolOf(t *testing.T, name string) *evaluator.Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, other); err != nil {
		t.Fatal(err)
	}
	p := &evaluator.Pool{Executable: other, Size: 1}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func bundle(text string) scripts.Bundle {
	return scripts.Bundle{Main: scripts.Source{Name: "test.tengo", Text: []byte(text)}}
}

var everything = scripts.Inputs{
	Params: map[string]any{"count": int64(2), "zones": []any{"a", "b"}}, Run: "r", Project: "shop", DatacenterName: "home",
	Allow: []string{"node.ping", "node.facts", "volume.create", "run.now"}, MaxCalls: 100,
}

const facts = `
node := import("node")
volume := import("volume")
run := import("run")
f := node.facts()
for i := 0; i < run.params.count; i++ { volume.create("v" + i, {size_gib: i + 1}, {labels: {zone: run.params.zones[i]}}) }
run.log("asked")
run.output({host: f.hostname, at: string(run.now())})
`

// finish answers the calls of passes until the script ends.
func finish(t *testing.T, e scripts.Evaluator, b scripts.Bundle) []scripts.Outcome {
	t.Helper()
	var journal []scripts.Entry
	var all []scripts.Outcome
	for range 10 {
		o, err := e.Pass(t.Context(), b, everything, journal)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
		if o.Status != scripts.Waiting {
			return all
		}
		for _, c := range o.Calls {
			journal = append(journal, succeeded(c))
		}
	}
	t.Fatal("the script does not end")
	return nil
}

// succeeded returns the entry of a successful call.
func succeeded(c scripts.NewCall) scripts.Entry {
	return scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntrySucceeded,
		Values: map[string]any{"hostname": "h", "unix_ms": int64(1_700_000_000_000), "list": []any{int64(1), nil, true}}}
}

func TestChildAndProcessOutcomesAreEqual(t *testing.T) {
	pool := newPool(t, 1)
	for name, text := range map[string]string{
		"succeeds": facts, "fails": "a := 1\na()", "does not compile": "a := b", "fails in a library": `enum := import("enum")` + "\nenum.map([1], func(k, v) { return 1 / (v - 1) })",
	} {
		t.Run(name, func(t *testing.T) {
			inside := finish(t, new(evaluator.InProcess), bundle(text))
			outside := finish(t, pool, bundle(text))
			if diff := cmp.Diff(inside, outside); diff != "" {
				t.Errorf("this process and a child differ (-this +child):\n%s", diff)
			}
			here, err := new(evaluator.InProcess).Plan(t.Context(), bundle(text), everything)
			if err != nil {
				t.Fatal(err)
			}
			there, err := pool.Plan(t.Context(), bundle(text), everything)
			if diff := cmp.Diff(here, there); err != nil || diff != "" {
				t.Errorf("the plans of this process and of a child differ (-this +child): %v\n%s", err, diff)
			}
		})
	}
}

// A script can end its child each time. The first death by each cause is logged, and the others are counted.
//
// Promise: Evaluation and resumes: Scripts that repeatedly crash their evaluator cannot fill the log, and a script
// that compromises a child gets its own line.
// How: Each kind of end gets one line in ten seconds, with a count.
func TestDeadChildrenLogFewLines(t *testing.T) {
	t.Parallel()
	pool, log := newMoodyPool(t), new(testenv.Log)
	pool.Log = log.Logger()
	const often = 6
	for range often {
		if _, err := pool.Pass(t.Context(), bundle("// please die"), everything, nil); writ.CodeOf(err) != writ.CodeEvaluatorCrashed {
			t.Fatal(err)
		}
	}
	if n := log.Lines("evaluator child ended"); n == 0 || n > often/2 || log.Lines("code=EVALUATOR_CRASHED") != n {
		t.Errorf("%d children ended, in %d lines:\n%s", often, n, log)
	}
}

func TestDeadChildCostsOnePass(t *testing.T) {
	t.Parallel()
	pool := newMoodyPool(t)
	for mood, want := range map[string]*regexp.Regexp{
		"die": regexp.MustCompile("exceeded its memory limit"),
		// The latter if this machine is too busy to give it 2 s.
		"spin": regexp.MustCompile("2s of CPU time|did not answer in time"),
	} {
		finish(t, pool, bundle(facts))
		_, err := pool.Pass(t.Context(), bundle("// please "+mood), everything, nil)
		if code := writ.CodeOf(err); code != writ.CodeEvaluatorCrashed || !want.MatchString(err.Error()) {
			t.Errorf("the pass of a child that should %s = %v (%s), want %s: %s", mood, err, code, writ.CodeEvaluatorCrashed, want)
		}
		_, err = pool.Plan(t.Context(), bundle("// please "+mood), everything)
		if code := writ.CodeOf(err); code != writ.CodeEvaluatorCrashed || !want.MatchString(err.Error()) {
			t.Errorf("the plan of a child that should %s = %v (%s), want %s: %s", mood, err, code, writ.CodeEvaluatorCrashed, want)
		}
		finish(t, pool, bundle(facts))
	}
}

func TestPassEndsWithItsContext(t *testing.T) {
	pool := newMoodyPool(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := pool.Pass(ctx, bundle("// please hang"), everything, nil)
		done <- err
	}()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Pass = %v, want %v", err, context.Canceled)
	}
	finish(t, pool, bundle(facts))
}

// killOnlyChild kills the pool's only child, which is idle, and waits for its end.
func killOnlyChild(t *testing.T, pool *evaluator.Pool) {
	t.Helper()
	idle := pool.Idle()
	if len(idle) != 1 {
		t.Fatalf("%d idle children, want 1", len(idle))
	}
	if err := idle[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for { // a zombie keeps no pipe open after the end of its other threads
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", idle[0].Pid))
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", idle[0].Pid))
		if err != nil || strings.Contains(string(stat), ") Z ") && len(threads) <= 1 {
			break
		}
	}
}

func TestChildThatDiedIdleCostsNothing(t *testing.T) {
	pool := newPool(t, 1)
	finish(t, pool, bundle(facts))
	killOnlyChild(t, pool)
	finish(t, pool, bundle(facts))
}

func TestChildStopsAtItsMemory(t *testing.T) {
	out, err := exec.Command(childBinary(t), "glutton").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "out of memory") && !strings.Contains(string(out), "cannot allocate") {
		t.Errorf("a child that takes 1 GiB: %v\n%.300s", err, out)
	}
}

func TestPoolLogsConfinementOnce(t *testing.T) {
	var text strings.Builder
	pool := newMoodyPool(t)
	pool.Log = slog.New(slog.NewTextHandler(&text, nil))
	layers, err := pool.Confinement(t.Context())
	want := evaluator.Layers{{Name: "air", Detail: "thin"}, {Name: "wall", Missing: "nobody built it"}}
	if diff := cmp.Diff(want, layers); diff != "" || err != nil {
		t.Errorf("Confinement (-want +got), %v:\n%s", err, diff)
	}
	if n := len(pool.Idle()); n != 1 {
		t.Errorf("%d idle children, want 1", n)
	}
	_, _ = pool.Pass(t.Context(), bundle("// please die"), everything, nil)
	finish(t, pool, bundle(facts)) // in another child
	if n := strings.Count(text.String(), "nobody built it"); n != 1 || !strings.Contains(text.String(), "air (thin)") {
		t.Errorf("missing protections are logged %d times, want once with their names:\n%s", n, &text)
	}
}

func TestFailedChildStartDoesNotFailTheScript(t *testing.T) {
	pool := &evaluator.Pool{Executable: "/bin/false", Size: 1}
	_, err := pool.Confinement(t.Context())
	if err == nil || writ.CodeOf(err) == writ.CodeEvaluatorCrashed {
		t.Errorf("Confinement = %v (%s)", err, writ.CodeOf(err))
	}
	if _, err = pool.Pass(t.Context(), bundle(facts), everything, nil); err == nil || writ.CodeOf(err) == writ.CodeEvaluatorCrashed {
		t.Errorf("Pass = %v (%s)", err, writ.CodeOf(err))
	}
}

func TestChildRequestsDroppedPrograms(t *testing.T) {
	pool := newPool(t, 1)
	for round := range 2 {
		for i := range 100 { // more than a child keeps
			o, err := pool.Pass(t.Context(), bundle(fmt.Sprintf(`import("run").output({n: %d})`, i)), everything, nil)
			if err != nil || o.Output["n"] != int64(i) {
				t.Fatalf("round %d, program %d: %v %v", round, i, o, err)
			}
		}
	}
	if n := len(pool.Idle()); n != 1 {
		t.Errorf("%d children, want the same one all along", n)
	}
}

func TestPoolIsSharedByManyRuns(t *testing.T) {
	pool := newPool(t, 3)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			o, err := pool.Pass(t.Context(), bundle(facts+fmt.Sprintf("run.log(%d)", i%5)), everything, nil)
			if err != nil || o.Status != scripts.Waiting || len(o.Calls) != 3 {
				t.Errorf("run %d: %+v %v", i, o, err)
			}
		})
	}
	group.Wait()
	// On a busy machine a pass may take long enough for a child of slow passes.
	slow := pool.IdleSlow()
	if n := len(pool.Idle()) - slow; n > 3 || slow > 1 {
		t.Errorf("%d children and %d for slow passes, want at most 3 and 1", n, slow)
	}
}

func TestTooBigJournalFailsTheRun(t *testing.T) {
	pool := newPool(t, 1)
	var journal []scripts.Entry
	for i := range 300 {
		journal = append(journal, scripts.Entry{Seq: i + 1, State: scripts.EntrySucceeded, Values: map[string]any{"x": strings.Repeat("x", 60_000)}})
	}
	for n, e := range map[int]scripts.Evaluator{1: pool, 2: new(evaluator.InProcess)} {
		o, err := e.Pass(t.Context(), bundle("a := 1"), everything, journal)
		if err != nil || o.Status != scripts.Failed || o.Failure.Code != writ.CodeScriptLimit {
			t.Errorf("evaluator %d: %+v %v, want %s", n, o, err, writ.CodeScriptLimit)
		}
	}
}
