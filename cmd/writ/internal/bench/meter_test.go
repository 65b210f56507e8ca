package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ/cmd/writ/internal/bench/peer"
)

func TestIdleFiguresAreRates(t *testing.T) {
	u := used{
		wall: 2 * time.Second,
		cpu:  map[string]time.Duration{"redis": 200 * time.Millisecond, "runner": 80 * time.Millisecond},
		commands: map[string]int64{
			"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9, "j": 10, "k": 11, "none": 0,
		},
	}
	got := idleFigures(u, 4)
	if got.Seconds != 2 || got.Commands != 33 || got.Cores() != 0.14 || got.CoresOf["redis"] != 0.1 ||
		got.NodeCores != 0.01 {
		t.Errorf("%+v", got)
	}
	if len(got.Most) != mostCommands || got.Most[0] != (CommandRate{"k", 5.5}) || got.Most[9] != (CommandRate{"b", 1}) {
		t.Errorf("the most frequent commands are %v", got.Most)
	}
	u.commands = map[string]int64{"ping": 4, "none": 0}
	if got := idleFigures(u, 4).Most; len(got) != 1 || got[0] != (CommandRate{"ping", 2}) {
		t.Errorf("with one command: %v", got)
	}
}

func TestLoadFiguresArePerCall(t *testing.T) {
	o := peer.Order{Runs: 2, InFlight: 2, Calls: 5}
	took := peer.Took{All: time.Second, Runs: []time.Duration{time.Second, time.Second}}
	idle := IdleFigures{CoresOf: map[string]float64{"redis": 0.01, "runner": 0.002}}
	got := loadFigures(o, took, used{
		wall:     2 * time.Second,
		cpu:      map[string]time.Duration{"redis": 50 * time.Millisecond, "runner": 3 * time.Millisecond},
		written:  map[string]int64{"redis": 4096, "runner": 8192},
		commands: map[string]int64{"xadd": 20, "ping": 5},
	}, idle)
	want := LoadFigures{
		Figures: Figures{
			Runs: 2, InFlight: 2, Calls: 5, RunsPerSecond: 2, CallsPerSecond: 10, CPUPerCall: 5300,
			CPUOf: map[string]float64{"redis": 5000, "runner": 300}, Time: Spread{P50: 1, P90: 1, P99: 1, Max: 1},
		},
		BusyPerCall: 2900, BusyOf: map[string]float64{"redis": 3000, "runner": -100},
		CommandsPerCall: 2.5, WrittenPerCall: 1228.8, WrittenOf: map[string]float64{"redis": 409.6, "runner": 819.2},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}
