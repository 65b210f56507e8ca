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

// TestSpeedTableShowsEveryFigureAndItsContext checks that the table has every system in every workload, and the
// context of the numbers.
func TestSpeedTableShowsEveryFigureAndItsContext(t *testing.T) {
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

// TestGrowthTableComparesSizes checks that the table has the figures of each size and their ratios to the first size.
func TestGrowthTableComparesSizes(t *testing.T) {
	size := func(nodes int, growth float64) bench.SizeReport {
		load := bench.LoadFigures{
			Figures: bench.Figures{
				Runs: 40, Calls: 10, RunsPerSecond: 200 / growth, CallsPerSecond: 2000 / growth, CPUPerCall: 400 * growth,
				CPUOf: map[string]float64{"supervisor": 300 * growth, "redis": 100 * growth}, Time: bench.Spread{P50: 0.0285},
			},
			BusyPerCall: 380, BusyOf: map[string]float64{"supervisor": 290, "redis": 90, "client": -2}, CommandsPerCall: 12 * growth,
			WrittenPerCall: 20_000 * growth, WrittenOf: map[string]float64{"supervisor": 20_000 * growth},
		}
		idle := bench.IdleFigures{
			CoresOf: map[string]float64{"redis": 0.01 * growth, "runner": 0.02 * growth}, NodeCores: 0.02 / growth, Commands: 30,
			Most: []bench.CommandRate{{Command: "blmove", PerSecond: 4.2}, {Command: "xadd", PerSecond: 1}},
		}
		return bench.SizeReport{Datacenters: 1, Nodes: nodes, Idle: idle, Together: load, FanOut: load}
	}
	report := bench.GrowthReport{
		Redis: "redis-server 7.0.15", Slots: 64, Sizes: []bench.SizeReport{size(1, 1), size(50, 2.5)},
	}
	report.Sizes[0].FanOut.BusyPerCall = 0 // too little to measure
	text := growthText(report, false)
	for want, times := range map[string]int{
		"NODES": 1, "200.0 (1.00)": 1, "80.0 (0.40)": 1, "400 µs (1.00)": 2, "1000 µs (2.50)": 2, "380 µs (1.00)": 2, "380 µs (–)": 1,
		" 0 µs (–)": 1, "30.0 (2.50)": 1, "50.0 KB (2.50)": 1, "7.5 % (2.50)": 1, "2000 (1.00)": 1, "800 (0.40)": 1,
		"1 datacenter:": 2, "50 nodes each, ready": 1, "runner 5.0, redis 2.5; a node 0.80": 1, "30: blmove 4.2, xadd 1.0": 2,
		"supervisor 750, redis 250": 2, "redis 90, client 0": 4, "redis-server 7.0.15": 1, "SUPERVISOR": 0,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, n, times, text)
		}
	}
	for i := range report.Sizes {
		s := &report.Sizes[i]
		s.Streams = &bench.StreamsReport{Streams: 500, OfRuns: s.Together, OfAll: s.Together}
		s.Streams.OfRuns.RunsPerSecond *= 0.95
		s.Backlog = &bench.BacklogReport{Runs: 5000, BehindSlots: 3500, BehindResources: 1000, BehindRevisions: 500, Idle: s.Idle, Together: s.Together}
	}
	report.Sizes = append(report.Sizes, size(1, 4))
	report.Sizes[2].Datacenters = 20
	text = growthText(report, false)
	for want, times := range map[string]int{
		"BACKLOG RUNS/S": 1, "80.0 (0.40)": 2, "380 µs (1.00)": 5, "5000 (3500 for capacity of a node, 1000 for": 2,
		"calls in a row:": 9, "500 streams of a run:": 2, "190.0 runs/s (0.95)": 1, "200.0 runs/s (1.00)": 1, "20   20     12.0 % (4.00)": 1, "380 µs (–)  –   ": 1, "\n20 datacenters:": 1,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("with a backlog, %q stands there %d times, want %d:\n%s", want, n, times, text)
		}
	}
	list := bench.ListReport{Address: "/v1/runs", Bytes: 2500, Time: bench.Spread{P50: 0.002, P99: 0.003}}
	slow := list
	slow.Time.P50 = 0.008
	report.Histories = []bench.HistoryReport{
		{Runs: 100, Lists: []bench.ListReport{list}}, {Runs: 1000, Lists: []bench.ListReport{slow}},
	}
	if text := growthText(report, false); !strings.Contains(text,
		"LIST      KB   P50 OF 100 RUNS  P99 OF 100 RUNS  P50 OF 1000 RUNS  P99 OF 1000 RUNS\n/v1/runs  2.5  2ms (1.00)       3ms              8ms (4.00)        3ms") {
		t.Errorf("the lists of a history:\n%s", text)
	}
	if text := growthText(report, true); strings.Count(text, "750 µs (2.50)") != 3 {
		t.Errorf("the wide table lacks the CPU time of the supervisor:\n%s", text)
	}
}

func TestGrowthNeedsSizesAndRedis(t *testing.T) {
	for _, nodes := range [][]int{{}, {1, 0}, {mostNodes + 1}} {
		if err := checkGrowth(bench.Growth{Nodes: nodes}); writ.CodeOf(err) != writ.CodeUsage ||
			!strings.Contains(err.Error(), "--nodes") {
			t.Errorf("with %v nodes: %v", nodes, err)
		}
	}
	err := checkGrowth(bench.Growth{Nodes: []int{1}, Datacenters: []int{1, mostDatacenters + 1}})
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "--datacenters") {
		t.Errorf("with too many datacenters: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	err = checkGrowth(bench.Growth{Nodes: []int{1}})
	if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), "redis-server") {
		t.Errorf("without redis-server: %v", err)
	}
}
