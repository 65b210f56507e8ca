package scripts_test

import (
	"errors"
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
