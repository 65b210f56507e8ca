package saltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
)

// keepsWhatItMade calls Keep after every step: it must report no drift and leave the resource unchanged.
func keepsWhatItMade(t *testing.T, e Suite) {
	h := e.newHost(t)
	if _, ok := h.driver.(sal.Keeper); !ok {
		t.Skip("the driver is not a sal.Keeper")
	}
	if drift := h.keepSubject(); len(drift) > 0 {
		t.Errorf("drift of a missing resource: %+v", drift)
	}
	for _, s := range append([]Step{e.Make}, e.Steps...) {
		h.must(h.step(s))
		h.restart(nil)
		before := h.observe(subject)
		if drift := h.keepSubject(); len(drift) > 0 {
			t.Errorf("drift after %s: %+v", s.Operation, drift)
		}
		if diff := cmp.Diff(before, h.observe(subject)); diff != "" {
			t.Errorf("after %s, Keep changed the state:\n%s", s.Operation, diff)
		}
	}
	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
}

// staysFenced checks that a fenced resource keeps its identity and does not run, even after Keep.
func staysFenced(t *testing.T, e Suite) {
	h := e.newHost(t)
	if _, ok := h.driver.(sal.Fencing); !ok {
		t.Skip("its resources do not run")
	}
	fence := func(name string) {
		t.Helper()
		if err := h.driver.(sal.Fencing).Fence(t.Context(), Resource(e.kind(), name)); err != nil {
			t.Fatalf("Fence: %v", err)
		}
	}
	fence("nothing")
	h.expect(e.Make, writ.ChangeCreated)
	made := h.observe(subject)
	runs := made.State == "running"
	for range 2 {
		fence(subject)
		h.restart(nil)
		h.keepSubject()
		seen := h.observe(subject)
		if !seen.Exists || seen.UID != made.UID || seen.State == "running" || runs && seen.State != "stopped" {
			t.Errorf("%+v became %+v when it was fenced", made, seen)
		}
	}
	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
}

// Remedies returns a function that lists the remedies of all orphans, for testenv.Empties. Each orphan must have a
// remedy.
func Remedies(t testing.TB, keeper sal.Keeper) func() []string {
	return func() (lines []string) {
		t.Helper()
		orphans, err := keeper.Orphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range orphans {
			if o.Remedy == "" {
				t.Fatalf("%+v has no remedy", o)
			}
			lines = append(lines, o.Remedy)
		}
		return lines
	}
}
