// Package saltest is the conformance suite for drivers, real or simulated: it tests the promises of package sal. It
// knows drivers only through sal.Driver and a directory that represents their host.
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

// Suite describes the tests for the driver of one module.
type Suite struct {
	// Open returns the driver on a host, a directory, as a runner does at startup: earlier drivers may leave only the
	// directory. The driver must call step before every single change of the host, so that the suite can stop it there.
	// A driver without steps is not tested for crashes.
	Open func(t testing.TB, host string, step func(name string)) sal.Driver
	// Hosts creates the directories. The default is plain directories; a driver that creates more than files in its
	// directory needs its own.
	Hosts Hosts
	// Prepare creates on a new host what other drivers would have created. It may be nil.
	Prepare func(t testing.TB, host string)
	// Others are resources of the same driver that the steps refer to; see RefTo.
	Others []Other
	// Make is a Make operation that creates the subject.
	Make Step
	// Mutable and Immutable are the arguments of Make with one field changed. They may be nil.
	Mutable, Immutable map[string]any
	// Steps are further operations on the subject, in a valid order.
	Steps []Step
	// Clear removes everything that the drivers created on a host outside its directory: processes, links, mounts. A
	// driver that creates any must have it. A copy of the directory then cannot restore an earlier state of the host,
	// so the suite replays the operations up to that state. It may be nil.
	Clear func(t testing.TB, host string)
	// Sparse means that creating the resource takes a few tenths of a second or more. A disturbed operation is then
	// followed by either a repetition or a cleanup, in turn; WRIT_TEST_LONG=1 enables both.
	Sparse bool
	// Traces describes the drivers' objects on a host outside its directory: "process 12 of m7k…", "link t5…". After a
	// resource is deleted, they must equal those before its creation. It may be nil.
	Traces func(t testing.TB, host string) []string
	// Handed lists patterns (filepath.Match) of files below the host's directory that pass values to the driver's tool.
	// They may contain the value of a secret if only their owner may read them, and must be deleted with their
	// resource.
	Handed []string
	// Incidental lists values that depend on the timing of a program, like its reaction time to a signal. The value
	// after a crash may differ from the value without one.
	Incidental []string
	// Log describes the logs of the resources.
	Log Log
}

// Step is one operation.
type Step struct {
	Operation string
	Args      map[string]any
}

// Other is a further resource and the steps that create it.
type Other struct {
	Name  string
	Steps []Step
}

const (
	project = writ.ProjectID("0192f6c2-7d3a-7000-8000-000000000001")
	another = writ.ProjectID("0192f6c2-7d3a-7000-8000-000000000002")
	subject = "subject"
)

// uidOf returns a UID for a name.
func uidOf(name string) writ.UID { return writ.UID("0192f6c2-7d3a-7000-9000-uid-of-" + name) }

// RefTo returns a handle to a resource of the suite, in the form of a job's arguments.
func RefTo(kind writ.ResourceKind, name string) writ.Ref {
	return writ.Ref{Kind: kind, Name: name, UID: uidOf(name)}
}

// Resource returns the id of a resource of the suite, for Prepare.
func Resource(kind writ.ResourceKind, name string) writ.ResourceID {
	return writ.ResourceID{Project: project, Kind: kind, Name: name}
}

// Run tests the driver. Every part is a subtest.
func Run(t *testing.T, e Suite) {
	t.Run("DescribesItself", e.describesItself)
	t.Run("MakesItSoOnce", e.makesItSoOnce)
	t.Run("BindsAResourceToItsUID", e.bindsToUID)
	t.Run("ChangesOnlyWhatMayBeChanged", e.changesOnlyMutable)
	t.Run("RepeatsEveryStep", e.repeatsEverySteps)
	t.Run("KnowsNothingThatIsNotThere", e.knowsNothing)
	t.Run("KeepsProjectsApart", e.keepsProjectsApart)
	t.Run("WorksOnManyAtOnce", e.worksOnManyAtOnce)
	t.Run("KeepsWhatItMade", e.keepsWhatItMade)
	t.Run("StaysFenced", e.staysFenced)
	t.Run("GoesOnBesideADamagedRecord", e.goesOnBesideADamagedRecord)
	t.Run("StopsWhenTheContextEnds", e.stopsWithContext)
	t.Run("GoesOnAfterACrashAnywhere", e.goesOnAfterCrash)
	t.Run("TellsWhatWasWritten", e.tellsWhatWasWritten)
	t.Run("KeepsNoSecret", func(t *testing.T) { e.keepsNoSecret(t) })
}

func (e Suite) operation() *catalog.Operation {
	o, _ := catalog.Lookup(e.Make.Operation)
	return o
}

func (e Suite) kind() writ.ResourceKind { return e.operation().Kind }

// with returns Make with other arguments.
func (e Suite) with(args map[string]any) Step { return Step{e.Make.Operation, args} }

// remove returns the module's Remove operation.
func (e Suite) remove() Step {
	for _, o := range catalog.Of(e.operation().Module) {
		if o.Effect == catalog.Remove {
			return Step{Operation: o.Name()}
		}
	}
	return Step{}
}

func (e Suite) describesItself(t *testing.T) {
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

func (e Suite) makesItSoOnce(t *testing.T) {
	h := e.newHost(t)
	h.absent()
	made := h.expect(e.Make, writ.ChangeCreated)
	seen := h.observe(subject)
	if !seen.Exists || seen.UID != uidOf(subject) || !h.listed(Resource(e.kind(), subject)) {
		t.Errorf("wrong observation after the creation: %+v", seen)
	}
	if diff := cmp.Diff(made.Values, seen.Values); diff != "" {
		t.Errorf("result and observation differ:\n%s", diff)
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

func (e Suite) bindsToUID(t *testing.T) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	for _, s := range append([]Step{e.Make, e.remove()}, e.Steps...) {
		h.refuse(s, subject, "0192f6c2-7d3a-7000-9000-somebody-else", writ.CodeResourceConflict)
	}
}

func (e Suite) changesOnlyMutable(t *testing.T) {
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

func (e Suite) repeatsEverySteps(t *testing.T) {
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

func (e Suite) knowsNothing(t *testing.T) {
	h := e.newHost(t)
	for _, s := range e.Steps {
		h.refuse(s, subject, uidOf(subject), writ.CodeResourceUnknown)
	}
	if seen := h.observe(subject); !cmp.Equal(seen, sal.Observation{}, cmpopts.EquateEmpty()) {
		t.Errorf("observation of a missing resource: %+v", seen)
	}
	h.expect(e.remove(), writ.ChangeUnchanged)
}

func (e Suite) keepsProjectsApart(t *testing.T) {
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

func (e Suite) worksOnManyAtOnce(t *testing.T) {
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
