package scripts_test

import (
	"errors"
	"slices"
	"testing"

	"writ"
	"writ/scripts"
)

// A pass over a journal without one of its calls can only report the damage.
func TestDamagedJournalAllowsNoCalls(t *testing.T) {
	damaged := []scripts.Entry{{Seq: 2, State: scripts.EntryOpen}}
	in := everything()
	asks := first(t, imports+`node.ping()`)
	if len(asks.Calls) != 1 {
		t.Fatal(asks)
	}
	for name, o := range map[string]scripts.Outcome{
		"it asks for a call": asks,
		"it is done":         {Status: scripts.Completed},
		"it fails and asks":  {Status: scripts.Failed, Calls: asks.Calls, Failure: &writ.Failure{Error: *writ.Errorf(writ.CodeNonDeterminism, "no")}},
		"it fails, without":  {Status: scripts.Failed},
	} {
		if err := o.Check(in, damaged); !errors.Is(err, scripts.ErrImpossible) {
			t.Errorf("%s: %v", name, err)
		}
	}
	honest, err := compile(t, bundleOf(imports+`node.ping()`)).Pass(t.Context(), in, damaged)
	if err != nil {
		t.Fatal(err)
	}
	if err := honest.Check(in, damaged); err != nil {
		t.Errorf("%+v: %v", honest, err)
	}
}

// An outcome of a hostile process cannot open more calls than a script.
func TestOutcomeHasFewOpenCalls(t *testing.T) {
	in := everything()
	in.MaxCalls = scripts.MaxCalls
	pings := func(first, n int) (o scripts.Outcome) {
		o.Status = scripts.Completed
		for i := range n {
			o.Calls = append(o.Calls, scripts.NewCall{Seq: first + i, Operation: "node.ping", Position: "main.tengo:1:1"})
		}
		return o
	}
	journal := make([]scripts.Entry, 3000)
	for i := range journal {
		journal[i] = scripts.Entry{Seq: i + 1, State: scripts.EntrySucceeded}
	}
	reopened := slices.Clone(journal)
	reopened[1999].State = scripts.EntryOpen
	for name, c := range map[string]struct {
		outcome scripts.Outcome
		journal []scripts.Entry
		wrong   bool
	}{
		"all new":                 {pings(1, scripts.MaxOpenCalls), nil, false},
		"all new, one more":       {pings(1, scripts.MaxOpenCalls+1), nil, true},
		"after ended calls":       {pings(3001, scripts.MaxOpenCalls), journal, false},
		"one more":                {pings(3001, scripts.MaxOpenCalls+1), journal, true},
		"an early call is open":   {pings(3001, scripts.MaxOpenCalls-1001), reopened, false},
		"it is open for too long": {pings(3001, scripts.MaxOpenCalls-1000), reopened, true},
	} {
		if err := c.outcome.Check(in, c.journal); errors.Is(err, scripts.ErrImpossible) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutcomeHasOnlyNeedsOfItsArguments(t *testing.T) {
	in := everything()
	journal := make([]scripts.Entry, 3)
	for i := range journal {
		journal[i] = scripts.Entry{Seq: i + 1, State: scripts.EntrySucceeded}
	}
	ping := scripts.NewCall{Seq: 4, Operation: "node.ping", Position: "main.tengo:1:1"}
	clone := scripts.NewCall{
		Seq: 4, Operation: "volume.clone", Name: "copy", Position: "main.tengo:1:1",
		Args: map[string]any{"from": map[string]any{scripts.RefKey: int64(1)}},
	}
	for name, c := range map[string]struct {
		call  scripts.NewCall
		after []int
		wrong bool
	}{
		"no needs":                   {ping, nil, false},
		"a need without an argument": {ping, []int{1}, true},
		"an argument":                {clone, []int{1}, false},
		"an argument and a name":     {clone, []int{1, 2}, false},
		"more needs":                 {clone, []int{1, 2, 3}, true},
	} {
		c.call.After = c.after
		o := scripts.Outcome{Status: scripts.Completed, Calls: []scripts.NewCall{c.call}}
		if err := o.Check(in, journal); errors.Is(err, scripts.ErrImpossible) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
