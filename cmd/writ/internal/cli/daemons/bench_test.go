//go:build !release

package daemons

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/bench"
)

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
