package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/testsite"
)

// TestBenchMeasuresEveryWorkload carries the benchmark out, small.
func TestBenchMeasuresEveryWorkload(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts a datacenter")
	}
	bin := testsite.Binary(t)
	profiles := t.TempDir()
	var out, words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "bench", "-n", "4", "--in-flight", "3", "--slots", "8", "--fan", "20", "--rounds", "2", "--profile", profiles, "-o", "json")
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &words)
	}
	var r bench.SpeedReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if r.Machine.Fsync.P50 <= 0 || r.Machine.CPUs == 0 || r.Machine.Kernel == "" || r.Redis == "" || r.Rounds != 2 {
		t.Fatalf("%+v", r)
	}
	var names []string
	for _, s := range r.Systems {
		name, _, _ := strings.Cut(s.Name, " ")
		names = append(names, name)
		if s.Durability == "" {
			t.Errorf("%s says nothing of its durability", s.Name)
		}
		for _, w := range []struct {
			figures               bench.Figures
			runs, inFlight, calls int
		}{{s.Together, 4, 3, 10}, {s.Alone, 1, 1, 10}, {s.OneCall, 1, 1, 1}, {s.FanOut, 1, 1, 20}} {
			f := w.figures
			if f.Runs != w.runs || f.InFlight != w.inFlight || f.Calls != w.calls || f.RunsPerSecond <= 0 || f.CallsPerSecond <= 0 || f.Time.Max <= 0 || f.WritToThis <= 0 {
				t.Errorf("%s: %+v, want %d runs of %d calls, %d in flight", s.Name, f, w.runs, w.calls, w.inFlight)
			}
		}
		if s.Together.CPUPerCall <= 0 {
			t.Errorf("%s has used no CPU", s.Name)
		}
	}
	if want := []string{"writ", "asynq", "asynq"}; !slices.Equal(names, want) {
		t.Fatalf("systems %q, want %q", names, want)
	}
	for _, part := range []string{"client", "supervisor", "evaluators", "runner"} {
		if _, measured := r.Systems[0].Together.CPUOf[part]; !measured {
			t.Errorf("the CPU of %s was not measured: %v", part, r.Systems[0].Together.CPUOf)
		}
	}
	for _, name := range []string{"supervisor.pprof", "runner.pprof"} {
		if info, err := os.Stat(filepath.Join(profiles, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBenchWaiting carries the benchmark out, small: it measures everything, and fails when the limit is passed.
func TestBenchWaiting(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts a datacenter")
	}
	bin := testsite.Binary(t)
	const runs = 700
	var out, words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "bench", "waiting", "--runs", "700", "--idle", "100ms", "--limit-mib", "1", "-o", "json")
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("a supervisor of more than 1 MiB is %v, want exit code 1\n%s", err, &words)
	}
	var r bench.WaitingReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &words)
	}
	if r.Runs != runs || r.BehindSlots+r.BehindResources+r.BehindRevisions != runs || r.BehindResources == 0 || r.BehindRevisions == 0 {
		t.Errorf("runs: %+v", r)
	}
	for what, n := range map[string]float64{
		"fsync": r.Machine.Fsync.P50, "accepted": r.AcceptedPerSec, "evaluated": r.EvaluatedPerSec, "cpu": r.CPUPerRun, "rss": float64(r.RSS),
		"peak": float64(r.RSSPeak), "collected": float64(r.RSSCollected), "heap": float64(r.Heap), "goroutines": float64(r.Goroutines),
		"journal": float64(r.JournalBytes), "one more": r.OneMore.P50, "ready": r.RestartReady, "first": r.RestartFirst,
		"restart rss": float64(r.RestartRSS), "restart peak": float64(r.RestartPeak),
	} {
		if n <= 0 {
			t.Errorf("%s was not measured", what)
		}
	}
}
