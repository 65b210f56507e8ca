package saltest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func describesItself(t *testing.T, e Suite) {
	h := e.newHost(t)
	d := h.driver.Describe()
	if d.Module != e.operation().Module || d.Name == "" {
		t.Errorf("wrong description %+v", d)
	}
	if d.Simulated != (d.Name == "simulated") {
		t.Errorf("name and simulation disagree: %+v", d)
	}
	h.restart(nil)
	if diff := cmp.Diff(d, h.driver.Describe()); diff != "" {
		t.Errorf("the description changed after a restart:\n%s", diff)
	}
}

func makesItSoOnce(t *testing.T, e Suite) {
	h := e.newHost(t)
	h.absent()
	made := h.expect(e.Make, writ.ChangeCreated)
	seen := h.observe(subject)
	if !seen.Exists || seen.UID != uidOf(subject) || !h.listed(h.subject()) {
		t.Errorf("wrong observation after the creation: %+v", seen)
	}
	if diff := cmp.Diff(made.Values, seen.Values); diff != "" {
		t.Errorf("result and observation differ:\n%s", diff)
	}
	if l := loadOf(h); l != (sal.Load{}) && l.UID != uidOf(subject) {
		t.Errorf("wrong load after the creation: %+v", l)
	}
	again := h.expect(e.Make, writ.ChangeUnchanged)
	h.restart(nil)
	third := h.expect(e.Make, writ.ChangeUnchanged)
	for _, o := range []sal.Outcome{again, third} {
		if diff := cmp.Diff(made.Values, o.Values); diff != "" {
			t.Errorf("the repeated call has another result:\n%s", diff)
		}
	}
	if diff := cmp.Diff(seen, h.observe(subject)); diff != "" {
		t.Errorf("the repeated call changed the state:\n%s", diff)
	}

	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
	h.expect(e.remove(), writ.ChangeUnchanged)
	h.restart(nil)
	h.absent()
	h.must(h.do(t.Context(), e.Make, subject, "0192f6c2-7d3a-7000-9000-the-second-one"))
	if seen := h.observe(subject); seen.UID != "0192f6c2-7d3a-7000-9000-the-second-one" {
		t.Errorf("the new resource has the id %s", seen.UID)
	}
}

func bindsToUID(t *testing.T, e Suite) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	for _, s := range append([]Step{e.Make, e.remove()}, e.Steps...) {
		h.refuse(s, subject, "0192f6c2-7d3a-7000-9000-somebody-else", writ.CodeResourceConflict)
	}
}

func changesOnlyMutable(t *testing.T, e Suite) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	if e.Immutable != nil {
		h.refuse(e.with(e.Immutable), subject, uidOf(subject), writ.CodeImmutableField)
	}
	if e.Mutable != nil {
		h.expect(e.with(e.Mutable), writ.ChangeUpdated)
		h.expect(e.with(e.Mutable), writ.ChangeUnchanged)
		h.restart(nil)
		h.expect(e.with(e.Mutable), writ.ChangeUnchanged)
	}
}

func repeatsEveryStep(t *testing.T, e Suite) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	for _, s := range e.Steps {
		o, _ := catalog.Lookup(s.Operation)
		first := h.must(h.step(s))
		if o.Effect == catalog.Look || o.Repeat == catalog.Once {
			continue
		}
		if first.Change != writ.ChangeUpdated {
			t.Errorf("change of %s: got %q, want %q", s.Operation, first.Change, writ.ChangeUpdated)
		}
		h.restart(nil)
		again := h.expect(s, writ.ChangeUnchanged)
		if diff := cmp.Diff(first.Values, again.Values); diff != "" {
			t.Errorf("%s has another result when it is repeated:\n%s", s.Operation, diff)
		}
	}
	h.expect(e.Make, writ.ChangeUnchanged) // effects of Alter are not undone
	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
}

func knowsNothing(t *testing.T, e Suite) {
	h := e.newHost(t)
	for _, s := range e.Steps {
		h.refuse(s, subject, uidOf(subject), writ.CodeResourceUnknown)
	}
	if seen := h.observe(subject); !cmp.Equal(seen, sal.Observation{}, cmpopts.EquateEmpty()) {
		t.Errorf("observation of a missing resource: %+v", seen)
	}
	if l := loadOf(h); l != (sal.Load{}) {
		t.Errorf("load of a missing resource: %+v", l)
	}
	h.expect(e.remove(), writ.ChangeUnchanged)
}

func keepsProjectsApart(t *testing.T, e Suite) {
	if len(e.Others) > 0 {
		t.Skip("its spec refers to resources of one project")
	}
	h := e.newHost(t)
	if e.Prepare != nil && len(e.operation().Args.Named(e.Make.Args)) > 0 {
		t.Skip("its spec names resources of one project")
	}
	h.expect(e.Make, writ.ChangeCreated)
	theirs := writ.ResourceID{Project: another, Kind: e.kind(), Name: subject}
	made := h.must(h.carryOut(t.Context(), h.request(e.Make, theirs, "0192f6c2-7d3a-7000-9000-theirs")))
	if made.Change != writ.ChangeCreated {
		t.Errorf("the same name in another project: %q", made.Change)
	}
	h.expect(e.remove(), writ.ChangeDeleted)
	if !h.listed(theirs) {
		t.Error("the deletion removed the resource of the other project")
	}
}

func worksOnManyAtOnce(t *testing.T, e Suite) {
	h := e.newHost(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("one-of-many-%d", i)
			for _, s := range []Step{e.Make, e.Make, e.remove(), e.Make} {
				if _, err := h.do(t.Context(), s, name, uidOf(name)); err != nil {
					t.Errorf("%s of %s: %v", s.Operation, name, err)
				}
			}
		})
	}
	all.Wait()
	for i := range 8 {
		if name := fmt.Sprintf("one-of-many-%d", i); !h.listed(Resource(e.kind(), name)) {
			t.Errorf("%s is not listed", name)
		}
	}
}
