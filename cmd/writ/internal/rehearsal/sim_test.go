package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"writ"
	"writ/scripts/evaluator"
	"writ/scripts/scripttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSim returns a sim with some scripts.
func newSim(t testing.TB, files map[string]string) *Sim {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &Sim{Dir: dir, Evaluator: new(evaluator.InProcess), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the sim: %v", err)
		}
	})
	return s
}

const two = `
volume := import("volume")
machine := import("machine")
run := import("run")
params := {size: {type: "int", default: 1, min: 1, max: 10}}
root := volume.create("root", {size_gib: run.params.size})
m := machine.create("m", {cpus: 1, memory_mib: 64, disks: [root]})
run.log("made", m.name)
run.output({path: root.path, project: run.project})
`

// play runs a script that must be valid.
func play(t testing.TB, s *Sim, r scripttest.Rehearsal) scripttest.Rehearsed {
	t.Helper()
	done, err := s.Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// ends describes the end of each call, for example "volume.create root: succeeded created again" after two attempts.
func ends(done scripttest.Rehearsed) (all []string) {
	for _, c := range done.Calls {
		text := scripttest.Target{Operation: c.Operation, Name: c.Name}.String() + ": " + string(c.State) + " " + string(c.Change)
		if c.Error != nil && c.State != writ.CallSucceeded {
			text += string(c.Error.Code)
		}
		all = append(all, text+strings.Repeat(" again", c.Attempt-1))
	}
	return all
}

func wantEnds(t *testing.T, done scripttest.Rehearsed, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ends(done)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestLaterRunFindsResourcesOfTheFirst(t *testing.T) {
	s := newSim(t, map[string]string{"two.tengo": two})
	first := play(t, s, scripttest.Rehearsal{Script: "two.tengo"})
	if first.State != "succeeded" || first.Failure != nil || len(first.Logs) != 1 || first.Logs[0] != "made m" || first.Output["project"] != "default" {
		t.Errorf("%+v", first)
	}
	wantEnds(t, first, "volume.create root: succeeded created", "machine.create m: succeeded created")
	wantEnds(t, play(t, s, scripttest.Rehearsal{Script: "two.tengo"}), "volume.create root: succeeded unchanged", "machine.create m: succeeded unchanged")
	wantEnds(t, play(t, s, scripttest.Rehearsal{Script: "two.tengo", Params: map[string]any{"size": int64(2)}}),
		"volume.create root: succeeded updated", "machine.create m: succeeded unchanged")

	found, err := s.Resources(t.Context())
	if err != nil || len(found) != 2 || found[0].Kind != writ.KindMachine || found[1].Args["size_gib"] != int64(2) {
		t.Errorf("%+v, %v", found, err)
	}
}

// Retries are delayed by a second or more in other datacenters. Five delayed retries would exceed this test's timeout.
func TestCallFailsTheConfiguredNumberOfTimes(t *testing.T) {
	fault := func(target scripttest.Target, code writ.Code, times int) scripttest.Rehearsal {
		return scripttest.Rehearsal{Script: "two.tengo", Faults: []scripttest.Fault{{Target: target, Code: code, Message: "told to", Times: times}}}
	}
	root := scripttest.Target{Operation: "volume.create", Name: "root"}
	for _, tt := range []struct {
		name  string
		run   scripttest.Rehearsal
		state string
		ends  []string
	}{
		{"once", fault(root, writ.CodeNoCapacity, 1), "succeeded", []string{"volume.create root: succeeded created again", "machine.create m: succeeded created"}},
		{"five times", fault(root, writ.CodeInjected, 5), "succeeded", []string{"volume.create root: succeeded created again again again again again", "machine.create m: succeeded created"}},
		{"always", fault(root, writ.CodeInjected, 0), "failed", []string{"volume.create root: failed INJECTED again again again again again", "machine.create m: cancelled INJECTED"}},
		{"for good", fault(root, writ.CodeQuotaExceeded, 1), "failed", []string{"volume.create root: failed QUOTA_EXCEEDED", "machine.create m: cancelled QUOTA_EXCEEDED"}},
		{"by operation", fault(scripttest.Target{Operation: "machine.create"}, writ.CodeDriverFailed, 1), "succeeded", []string{"volume.create root: succeeded created", "machine.create m: succeeded created again"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSim(t, map[string]string{"two.tengo": two})
			done := play(t, s, tt.run)
			if done.State != tt.state || len(done.Untouched) > 0 {
				t.Errorf("%s, %v untouched", done.State, done.Untouched)
			}
			wantEnds(t, done, tt.ends...)
			if c := done.Calls[0]; done.State == "failed" && c.Error.Message != "told to" {
				t.Errorf("%+v", c.Error)
			}
			// The previous faults are cleared.
			if again := play(t, s, scripttest.Rehearsal{Script: "two.tengo"}); again.State != "succeeded" {
				t.Errorf("again: %+v", again.Failure)
			}
		})
	}
}

func TestFaultNamingTheResourceTakesPrecedence(t *testing.T) {
	s := newSim(t, map[string]string{"a.tengo": `
volume := import("volume"); run := import("run"); node := import("node")
for name in ["a", "b"] { run.log(volume.create(name, {size_gib: 1}).err) }
run.output({path: volume.get("a").path, cpus: node.facts().cpus, host: node.facts().hostname})
`})
	done := play(t, s, scripttest.Rehearsal{Script: "a.tengo", Nodes: 1,
		Faults: []scripttest.Fault{
			{Target: scripttest.Target{Operation: "volume.create", Name: "b"}, Code: writ.CodeDiskFull, Message: "b", Times: 1},
			{Target: scripttest.Target{Operation: "volume.create"}, Code: writ.CodeQuotaExceeded, Message: "any", Times: 0},
			{Target: scripttest.Target{Operation: "volume.delete"}, Code: writ.CodeInjected},
		},
		Results: []scripttest.Substitute{
			{Target: scripttest.Target{Operation: "node.facts"}, Values: map[string]any{"cpus": int64(2)}},
			{Target: scripttest.Target{Operation: "volume.create", Name: "c"}, Values: map[string]any{"path": "/c"}},
		},
	})
	wantEnds(t, done, "volume.create a: failed QUOTA_EXCEEDED", "volume.create b: succeeded created again", "volume.get a: failed RESOURCE_UNKNOWN")
	want := []scripttest.Target{{Operation: "volume.delete"}, {Operation: "node.facts"}, {Operation: "volume.create", Name: "c"}}
	if diff := cmp.Diff(want, done.Untouched); diff != "" {
		t.Errorf("untouched (-want +got):\n%s", diff)
	}
	done = play(t, s, scripttest.Rehearsal{Script: "a.tengo", Nodes: 1, Results: []scripttest.Substitute{
		{Target: scripttest.Target{Operation: "node.facts"}, Values: map[string]any{"cpus": int64(2)}},
		{Target: scripttest.Target{Operation: "volume.create", Name: "a"}, Values: map[string]any{"path": "/mine"}},
		{Target: scripttest.Target{Operation: "volume.create"}, Values: map[string]any{"path": "/any"}},
	}})
	if diff := cmp.Diff(map[string]any{"path": "/mine", "cpus": int64(2), "host": "n1"}, done.Output); diff != "" || len(done.Untouched) > 0 {
		t.Errorf("output (-want +got):\n%s%v", diff, done.Untouched)
	}
}

func TestRefusalIsTheResultOfARun(t *testing.T) {
	s := newSim(t, map[string]string{"two.tengo": two})
	for name, params := range map[string]map[string]any{
		`parameter "size" must be 1 to 10, not 11`: {"size": int64(11)},
		`the script has no parameter "sice"`:       {"sice": int64(1)},
	} {
		done := play(t, s, scripttest.Rehearsal{Script: "two.tengo", Params: params})
		if done.State != scripttest.StateRefused || done.Failure == nil || done.Failure.Message != name || done.Failure.Code != writ.CodeUsage {
			t.Errorf("%s %+v", done.State, done.Failure)
		}
	}
}

func TestAnImpossibleFaultIsAnError(t *testing.T) {
	s := newSim(t, map[string]string{"bad.tengo": "import(\"volume\").create(\"a\", {size: 1})\n", "a_test.tengo": "x := 1"})
	for path, want := range map[string]string{
		"none.tengo":   "cannot read the script",
		"a_test.tengo": "has tests and is not a script",
		"bad.tengo":    "the check of bad.tengo found errors:\nerror[W0104]: volume.create has no field \"size\"\n --> ",
	} {
		if _, err := s.Run(t.Context(), scripttest.Rehearsal{Script: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestUnfinishedRunShowsWhatItWaitsFor(t *testing.T) {
	s := newSim(t, map[string]string{"slow.tengo": "import(\"volume\").create(\"slow-100-a\", {size_gib: 1})\n", "two.tengo": two})
	play(t, s, scripttest.Rehearsal{Script: "two.tengo"})
	ctx, stop := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, writ.Errorf(writ.CodeTimeout, "its time is over"))
	defer stop()
	_, err := s.Run(ctx, scripttest.Rehearsal{Script: "slow.tengo"})
	if err == nil || !strings.Contains(err.Error(), "its time is over: slow.tengo is running\n  volume.create slow-100-a is ") {
		t.Errorf("%v", err)
	}
}

func TestARunEndsWithItsDatacenter(t *testing.T) {
	s := newSim(t, map[string]string{"slow.tengo": "import(\"volume\").create(\"slow-100-a\", {size_gib: 1})\n", "two.tengo": two})
	play(t, s, scripttest.Rehearsal{Script: "two.tengo"})
	s.cluster.begin(t.Context(), func(context.Context) error { return errors.New("no more") })
	_, err := s.Run(t.Context(), scripttest.Rehearsal{Script: "slow.tengo"})
	if err == nil || !strings.Contains(err.Error(), "the datacenter of the test failed: no more: slow.tengo is ") {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("close: %v", err)
	}
}

func TestProjectsAndDeploymentsAreThereWhenTheyAreNamed(t *testing.T) {
	s := newSim(t, map[string]string{"two.tengo": two})
	mine := play(t, s, scripttest.Rehearsal{Script: "two.tengo"})
	for range 2 {
		done := play(t, s, scripttest.Rehearsal{Script: "two.tengo", Project: "shop", Deployment: "web"})
		if done.State != "succeeded" || done.Output["project"] != "shop" || done.Output["path"] == mine.Output["path"] {
			t.Errorf("%+v", done)
		}
	}
	done := play(t, s, scripttest.Rehearsal{Script: "two.tengo", Project: "shop", Deployment: "other"})
	if done.State != "failed" || done.Failure.Code != writ.CodeNotOwner {
		t.Errorf("%+v", done)
	}
	other := play(t, newSim(t, map[string]string{"two.tengo": two}), scripttest.Rehearsal{Script: "two.tengo"})
	if other.Output["path"] != mine.Output["path"] {
		t.Errorf("the same machine of another test has another address: %v, %v", other.Output, mine.Output)
	}
}

func BenchmarkFirstRun(b *testing.B) {
	files := map[string]string{"two.tengo": two}
	for b.Loop() {
		s := newSim(b, files)
		play(b, s, scripttest.Rehearsal{Script: "two.tengo"})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
