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

	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestBenchMeasuresEveryWorkload runs a small benchmark.
//
// Promise: Speed and storage: The cost of a call is measured beside the same work on asynq, in the same minutes, and
// on other systems if they are installed.
// How: One loop drives every system, in turns, each in its own process; figures are medians of rounds.
// Also: TestEveryCallIsCarriedOutOnce, TestFiguresAreMediansOfRounds.
func TestBenchMeasuresEveryWorkload(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "redis-server") // the stand-in does not support TLS
	bin := testcluster.Binary(t)
	profiles := t.TempDir()
	var r bench.SpeedReport
	measure(t, bin, &r, "-n", "4", "--in-flight", "3", "--slots", "8", "--fan", "20", "--rounds", "2", "--profile", profiles, "--tls",
		"--beside", fakePeers(t))
	if r.Machine.Fsync.P50 <= 0 || r.Machine.CPUs == 0 || r.Machine.Kernel == "" || r.Redis == "" || r.Rounds != 2 {
		t.Fatalf("%+v", r)
	}
	var names []string
	for _, s := range r.Systems {
		name, _, _ := strings.Cut(s.Name, " ")
		names = append(names, name)
		if s.Durability == "" {
			t.Errorf("%s has no durability", s.Name)
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
	areProfiles(t, profiles, "supervisor", "runner")
}

// areProfiles checks that a benchmark wrote profiles of processes.
func areProfiles(t *testing.T, dir string, processes ...string) {
	t.Helper()
	for _, name := range processes {
		if info, err := os.Stat(filepath.Join(dir, name+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
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

// measure runs `writ bench` and reads its report. It fails if arguments of a process show a password.
func measure(t *testing.T, bin string, report any, args ...string) {
	t.Helper()
	var out, words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"bench", "-o", "json"}, args...)...)
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
	if err := json.Unmarshal(out.Bytes(), report); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
}

// growth runs `writ bench growth` with two nodes in each datacenter.
func growth(t *testing.T, more ...string) (r bench.GrowthReport) {
	t.Helper()
	testenv.Need(t, "redis-server")
	measure(t, testcluster.Binary(t), &r,
		append([]string{"growth", "--nodes", "2", "-n", "3", "--in-flight", "2", "--fan", "20"}, more...)...)
	if len(r.Sizes) == 0 {
		t.Fatal("no size was measured")
	}
	return r
}

// TestBenchGrowthMeasuresTwoNodes measures a small site: every process is measured, idle and with each workload.
func TestBenchGrowthMeasuresTwoNodes(t *testing.T) {
	t.Parallel()
	profiles := t.TempDir()
	r := growth(t, "--profile", profiles, "--idle", "6s") // nodes without jobs send each command every 5 s
	if len(r.Sizes) != 1 || r.Sizes[0].Datacenters != 1 || r.Sizes[0].Backlog != nil || r.Histories != nil {
		t.Fatalf("%+v", r)
	}
	checkSize(t, r.Sizes[0])
	areProfiles(t, profiles, "coordinator", "supervisor", "runner")
}

// TestBenchGrowthMeasuresEveryPart measures a site with waiting runs, one with two datacenters, and a long history.
func TestBenchGrowthMeasuresEveryPart(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestBenchGrowthMeasuresTwoNodes")
	r := growth(t, "--idle", "6s", "--datacenters", "1,2", "--backlog", "50", "--history", "2000", "--requests", "3")
	if len(r.Sizes) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, s := range r.Sizes {
		if s.Datacenters != i+1 {
			t.Errorf("size %d has %d datacenters", i+1, s.Datacenters)
		}
		checkSize(t, s)
	}
	if h := r.Histories; len(h) != 2 || h[0].Runs != 200 || h[1].Runs != 2000 || len(h[0].Lists) != len(h[1].Lists) {
		t.Fatalf("the histories: %+v", h)
	}
	for _, l := range r.Histories[1].Lists {
		none := strings.Contains(l.Address, "=signer-3&state=failed") || strings.Contains(l.Address, "=web-7.tengo&s") ||
			strings.Contains(l.Address, "nothing")
		if listed := l.Bytes > 1000 || strings.HasPrefix(l.Address, "/v1/runs/"); l.Time.P50 <= 0 ||
			strings.HasPrefix(l.Address, "/v1/") && listed == none {
			t.Errorf("%+v", l)
		}
	}
	b := r.Sizes[0].Backlog
	if b == nil || b.Runs != 50 || b.BehindSlots != 37 || b.BehindResources != 9 || b.BehindRevisions != 4 || b.Idle.Seconds < 0.5 {
		t.Fatalf("the site with waiting runs: %+v", b)
	}
	if f := b.Together; f.Runs != 3 || f.Calls != 10 || f.RunsPerSecond <= 0 || r.Sizes[1].Backlog != nil {
		t.Errorf("runs beside the waiting ones: %+v", f)
	}
}

// checkSize checks the measurements of a site with two nodes in each datacenter.
func checkSize(t *testing.T, s bench.SizeReport) {
	t.Helper()
	if s.Nodes != 2 || s.JoinSeconds <= 0 || s.Idle.Seconds < 0.5 || s.Idle.Commands <= 0 || len(s.Idle.Most) != 10 {
		t.Errorf("%+v", s)
	}
	for _, w := range []struct {
		figures     bench.LoadFigures
		runs, calls int
	}{{s.Together, 3, 10}, {s.FanOut, s.Datacenters, 20}} {
		f := w.figures
		if f.Runs != w.runs || f.Calls != w.calls || f.RunsPerSecond <= 0 || f.CommandsPerCall <= 0 {
			t.Errorf("%+v, want %d runs of %d calls", f, w.runs, w.calls)
		}
		for _, class := range bench.Classes {
			if class == "postgres" {
				continue
			}
			for name, parts := range map[string]map[string]float64{"CPU": f.CPUOf, "busy CPU": f.BusyOf, "idle CPU": s.Idle.CoresOf} {
				if _, measured := parts[class]; !measured {
					t.Errorf("the %s of the %s was not measured: %v", name, class, parts)
				}
			}
			if _, measured := f.WrittenOf[class]; measured == (class == "evaluators") {
				t.Errorf("the writes of the %s: measured is %v", class, measured)
			}
		}
	}
}

// TestBenchGrowthUsesPostgreSQL measures a site with its stores in PostgreSQL, and deletes their databases.
func TestBenchGrowthUsesPostgreSQL(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestBenchGrowthMeasuresTwoNodes")
	server := testenv.Postgres(t)
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte(server.URL("postgres")), 0o600); err != nil {
		t.Fatal(err)
	}
	r := growth(t, "--idle", "100ms", "--postgres", "@"+file, "--history", "20", "--requests", "1")
	if _, measured := r.Sizes[0].Together.CPUOf["postgres"]; !measured || !strings.HasPrefix(r.Stores, "PostgreSQL ") {
		t.Errorf("stores in %s, CPU time %v", r.Stores, r.Sizes[0].Together.CPUOf)
	}
	if len(r.Histories) != 2 || r.Histories[1].Runs != 20 {
		t.Errorf("the histories: %+v", r.Histories)
	}
	if left := server.SQL("select datname from pg_database where datname like 'writ_bench%'"); left != "" {
		t.Errorf("databases are left: %s", left)
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
