//go:build !release

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/testenv"
)

// TestBenchMeasuresEveryWorkload runs a small benchmark.
func TestBenchMeasuresEveryWorkload(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "redis-server") // the stand-in does not support TLS
	bin := testcluster.Binary(t)
	profiles := t.TempDir()
	var out, words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "bench", "-n", "4", "--in-flight", "3", "--slots", "8", "--fan", "20", "--rounds", "2", "--profile", profiles, "--tls",
		"--beside", fakePeers(t), "-o", "json")
	var login string
	// Progress is printed while all processes run.
	cmd.Stdout, cmd.Stderr = &out, writerFunc(func(p []byte) (int, error) {
		login = cmp.Or(login, shownLogin(t, bin))
		return words.Write(p)
	})
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &words)
	}
	if login != "" {
		t.Errorf("a password is among the arguments of %s", login)
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
		}{{s.Together, 8, 3, 10}, {s.Alone, 2, 1, 10}, {s.OneCall, 2, 1, 1}, {s.FanOut, 2, 1, 20}} {
			f := w.figures
			if f.Runs != w.runs || f.InFlight != w.inFlight || f.Calls != w.calls || f.RunsPerSecond <= 0 || f.CallsPerSecond <= 0 || f.Time.Max <= 0 || f.WritToThis <= 0 {
				t.Errorf("%s: %+v, want %d runs of %d calls, %d in flight", s.Name, f, w.runs, w.calls, w.inFlight)
			}
		}
		if s.Name == "writ" && s.Together.CPUPerCall <= 0 { // the others may use too little to measure
			t.Error("writ has used no CPU")
		}
	}
	if want := []string{"writ", "writ,", "asynq", "asynq", "fake"}; !slices.Equal(names, want) || !slices.Equal(r.Missing, []string{"gone: it is not on PATH"}) {
		t.Fatalf("systems %q, want %q; missing %q", names, want, r.Missing)
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

func TestABenchmarkOfTLSNeedsRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := bench.Speed{Runs: 1, InFlight: 1, Slots: 1, Fan: 1, Rounds: 1, Within: time.Second, AsynqPoll: minAsynqPoll}
	if err := checkSpeed(s); err != nil {
		t.Errorf("without TLS: %v", err)
	}
	s.TLS = true
	if err := checkSpeed(s); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "redis-server") {
		t.Errorf("with TLS: %v", err)
	}
}

// fakePeers creates a program that reports made-up speeds of other systems.
func fakePeers(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "peers")
	const script = `#!/bin/sh
case "$1" in
"") echo '{"systems": [{"name": "fake"}, {"name": "gone", "missing": "it is not on PATH"}]}' ;;
fake)
	[ -d "$3" ] && [ "$5" = 8 ] || exit 1
	echo '{"name": "fake 1.0", "durability": "none"}'
	while read -r order; do
		case "$order" in
		*'"runs":4,'*) echo '{"took": {"all": 1000000000, "runs": [1, 2, 3, 4]}}' ;;
		*) echo '{"took": {"all": 1000000000, "runs": [1]}}' ;;
		esac
	done ;;
esac
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTheTableOfSpeedsShowsEveryFigureAndWhereItHolds checks that the table has every system in every workload, and the
// context of the numbers.
func TestTheTableOfSpeedsShowsEveryFigureAndWhereItHolds(t *testing.T) {
	figures := func(rate float64) bench.Figures {
		return bench.Figures{InFlight: 50, Calls: 10, RunsPerSecond: rate / 10, CallsPerSecond: rate, CPUPerCall: 400, WritToThis: 2000 / rate,
			CPUOf: map[string]float64{"redis": 100, "worker": 300}, Time: bench.Spread{P50: 0.0285, P99: 0.0357}}
	}
	report := bench.SpeedReport{
		Machine: bench.Machine{CPU: "a processor", CPUs: 2, OS: "linux/amd64", Kernel: "6.1", Go: "go1.26", Fsync: bench.Spread{P50: 0.0000275}},
		Redis:   "redis-server 7.0.15", Slots: 64, AsynqPollMS: 2, Rounds: 3, Missing: []string{"gone: it is not on PATH"},
	}
	for name, rate := range map[string]float64{"writ": 2000, "other": 4000} {
		f := figures(rate)
		report.Systems = append(report.Systems, bench.SystemReport{Name: name, Durability: name + " keeps it", Together: f, Alone: f, OneCall: f, FanOut: f})
	}
	text := speedText(report, false)
	for want, times := range map[string]int{
		"10 calls in a row, 50 runs in flight": 2, "10 calls in a row, alone": 2, "one call, alone": 2, "10 calls at once, alone": 2,
		"200.0   2000     28.5ms  35.7ms  400 µs    1.00": 4, "400.0   4000     28.5ms  35.7ms  400 µs    0.50": 4, "keeps it": 2,
		"gone: it is not on PATH": 1, "2 cores (a processor), linux/amd64, kernel 6.1, go1.26, fsync p50 28µs": 1, "redis-server 7.0.15": 1,
		"medians of 3 rounds": 1, "OF WHICH": 0,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, n, times, text)
		}
	}
	if text := speedText(report, true); strings.Count(text, "worker 300, redis 100") != 8 {
		t.Errorf("the parts of the CPU are not there:\n%s", text)
	}
}

// TestBenchWaiting runs a small benchmark: it measures everything, and fails when the limit is exceeded.
func TestBenchWaiting(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestBenchMeasuresEveryWorkload")
	bin := testcluster.Binary(t)
	const runs = 700
	var out, words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "bench", "waiting", "--runs", "700", "--idle", "100ms", "--limit-mib", "1", "-o", "json")
	var login string
	// Progress is printed while all processes run.
	cmd.Stdout, cmd.Stderr = &out, writerFunc(func(p []byte) (int, error) {
		login = cmp.Or(login, shownLogin(t, bin))
		return words.Write(p)
	})
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

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// shownLogin returns the command line of a process of a program that contains a Redis login, or "".
func shownLogin(t *testing.T, program string) string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path) // the process may have ended
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[0] == program && args[1] == "bench" && strings.Contains(string(line), "@127.0.0.1") {
			return strings.Join(args, " ")
		}
	}
	return ""
}
