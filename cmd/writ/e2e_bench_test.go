package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/testsite"
)

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
