// Package saltest is the exam that every driver passes, real or simulated: what package sal promises to runners, tried out. It knows
// drivers only through sal.Driver and a directory that stands for their host.
package saltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Exam says how to examine the driver of one module.
type Exam struct {
	// Open returns the driver on a host, a directory, as a runner does that starts there: nothing but the directory may remain of
	// drivers that were open before. The driver must call step before every single change of the host, so that the exam can stop
	// it there; a driver that cannot, leaves step alone and is not tried for crashes.
	Open func(t testing.TB, host string, step func(name string)) sal.Driver
	// Hosts makes the directories. Without it they are plain ones; a driver that makes more than files below its directory brings its own.
	Hosts Hosts
	// Prepare makes on a new host what other drivers would have made. It may be nil.
	Prepare func(t testing.TB, host string)
	// Others are resources of the same driver that the steps refer to; see RefTo.
	Others []Other
	// Make is a Make operation of a resource that is not there.
	Make Step
	// Mutable and Immutable are the arguments of Make with one field changed. They may be nil.
	Mutable, Immutable map[string]any
	// Steps are operations on the resource, in the order in which they make sense.
	Steps []Step
	// Clear takes everything of the drivers away that they have made on a host outside of its directory: processes, links, mounts. A driver
	// that makes any must have it. Then no copy of the directory can stand for an earlier moment of the host, and the exam works its way to
	// that moment anew. It may be nil.
	Clear func(t testing.TB, host string)
	// Sparse says that making the resource is dear, a few tenths of a second and more. Then a disturbed operation is either done again or
	// cleaned up after, in turn, and not both; with WRIT_TEST_LONG=1 both all the same.
	Sparse bool
	// Traces describes what drivers have on a host outside of its directory: "process 12 of m7k…", "link t5…". When a resource is deleted
	// there must be what was there before it was made. It may be nil.
	Traces func(t testing.TB, host string) []string
	// Handed are patterns (filepath.Match) of files below the host's directory in which the driver hands values to its tool. They may hold
	// the value of a secret, if only their owner may read them, and must not outlive their resource.
	Handed []string
	// Log is of drivers whose resources write logs.
	Log Log
}

// Step is one operation.
type Step struct {
	Operation string
	Args      map[string]any
}

// Other is a resource besides the one that is examined, and what makes it.
type Other struct {
	Name  string
	Steps []Step
}

const (
	project = writ.ProjectID("0192f6c2-7d3a-7000-8000-000000000001")
	another = writ.ProjectID("0192f6c2-7d3a-7000-8000-000000000002")
	subject = "subject"
)

// uidOf gives every name a UID.
func uidOf(name string) writ.UID { return writ.UID("0192f6c2-7d3a-7000-9000-uid-of-" + name) }

// RefTo is a handle to a resource of the exam as it is in the arguments of a job.
func RefTo(kind writ.ResourceKind, name string) writ.Ref {
	return writ.Ref{Kind: kind, Name: name, UID: uidOf(name)}
}

// Resource is how resources of the exam are named to drivers, for Prepare.
func Resource(kind writ.ResourceKind, name string) writ.ResourceID {
	return writ.ResourceID{Project: project, Kind: kind, Name: name}
}

// Run examines the driver. Every part of it is a subtest.
func Run(t *testing.T, e Exam) {
	t.Run("DescribesItself", e.describesItself)
	t.Run("MakesItSoOnce", e.makesItSoOnce)
	t.Run("BindsAResourceToItsUID", e.bindsToUID)
	t.Run("ChangesOnlyWhatMayBeChanged", e.changesOnlyMutable)
	t.Run("RepeatsEveryStep", e.repeatsEverySteps)
	t.Run("KnowsNothingThatIsNotThere", e.knowsNothing)
	t.Run("KeepsProjectsApart", e.keepsProjectsApart)
	t.Run("WorksOnManyAtOnce", e.worksOnManyAtOnce)
	t.Run("KeepsWhatItMade", e.keepsWhatItMade)
	t.Run("GoesOnBesideADamagedRecord", e.goesOnBesideADamagedRecord)
	t.Run("StopsWhenTheContextEnds", e.stopsWithContext)
	t.Run("GoesOnAfterACrashAnywhere", e.goesOnAfterCrash)
	t.Run("TellsWhatWasWritten", e.tellsWhatWasWritten)
	t.Run("KeepsNoSecret", func(t *testing.T) { e.keepsNoSecret(t) })
}

// host is a machine under examination.
type host struct {
	testing.TB
	exam   Exam
	dir    string
	driver sal.Driver
	before []string // the traces on the host without the subject
	keys   int
	mu     sync.Mutex // guards keys
}

// newHost returns a host with everything on it but the subject.
func (e Exam) newHost(t testing.TB) *host {
	h := &host{TB: t, exam: e, dir: e.hosts().New(t)}
	if e.Clear != nil {
		t.Cleanup(func() { e.Clear(t, h.dir) })
	}
	h.furnish()
	return h
}

// furnish makes everything on an empty host but the subject.
func (h *host) furnish() {
	h.Helper()
	if h.exam.Prepare != nil {
		h.exam.Prepare(h, h.dir)
	}
	h.restart(nil)
	for _, o := range h.exam.Others {
		for _, s := range o.Steps {
			h.must(h.do(h.Context(), s, o.Name, uidOf(o.Name)))
		}
	}
	h.before = h.traces()
}

// traces are those of the drivers, sorted.
func (h *host) traces() []string {
	if h.exam.Traces == nil {
		return nil
	}
	all := h.exam.Traces(h, h.dir)
	slices.Sort(all)
	return all
}

// restart opens the driver anew.
func (h *host) restart(step func(name string)) {
	h.Helper()
	if step == nil {
		step = func(string) {}
	}
	h.driver = h.exam.Open(h, h.dir, step)
}

func (h *host) must(o sal.Outcome, err error) sal.Outcome {
	h.Helper()
	if err != nil {
		h.Fatalf("%s: %v", writ.CodeOf(err), err)
	}
	return o
}

// request makes a request of a step.
func (h *host) request(s Step, resource writ.ResourceID, uid writ.UID) sal.Request {
	h.Helper()
	o, ok := catalog.Lookup(s.Operation)
	if !ok {
		h.Fatalf("there is no operation %s", s.Operation)
	}
	args, err := o.DecodeWith(s.Args, secrets)
	if err != nil {
		h.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys++
	return sal.Request{Operation: o, Resource: resource, UID: uid, Args: args, Key: fmt.Sprintf("exam-%d-1", h.keys), Progress: func(text string) { h.silent("it says while it works", text) }}
}

// do carries out a step on a resource of the exam's project and holds its outcome against the catalogue.
func (h *host) do(ctx context.Context, s Step, name string, uid writ.UID) (sal.Outcome, error) {
	h.Helper()
	o, _ := catalog.Lookup(s.Operation)
	return h.carryOut(ctx, h.request(s, Resource(o.Kind, name), uid))
}

func (h *host) carryOut(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	h.Helper()
	outcome, err := h.driver.Do(ctx, r)
	h.silent("the outcome of "+r.Operation.Name(), fmt.Sprintf("%v %v", outcome, err))
	if err != nil {
		return outcome, err
	}
	for _, p := range r.Operation.Result.Check(outcome.Values, nil) {
		h.Errorf("the result of %s: %s", r.Operation.Name(), p)
	}
	want := map[string]any{"name": r.Resource.Name, "uid": string(r.UID), "simulated": h.driver.Describe().Simulated}
	for name, v := range want {
		if outcome.Values[name] != v {
			h.Errorf("the result of %s has %s %v, want %v", r.Operation.Name(), name, outcome.Values[name], v)
		}
	}
	if r.Operation.Effect == catalog.Look && outcome.Change != writ.ChangeNone {
		h.Errorf("%s only looks, and says %q", r.Operation.Name(), outcome.Change)
	}
	return outcome, nil
}

// step carries out a step on the subject.
func (h *host) step(s Step) (sal.Outcome, error) {
	h.Helper()
	return h.do(h.Context(), s, subject, uidOf(subject))
}

// expect carries out a step on the subject that must end with this change.
func (h *host) expect(s Step, want writ.Change) sal.Outcome {
	h.Helper()
	o := h.must(h.step(s))
	if o.Change != want {
		h.Errorf("%s says %q, want %q", s.Operation, o.Change, want)
	}
	return o
}

// refuse carries out a step that must end with this code and change nothing.
func (h *host) refuse(s Step, name string, uid writ.UID, want writ.Code) {
	h.Helper()
	before := h.observe(name)
	if _, err := h.do(h.Context(), s, name, uid); writ.CodeOf(err) != want {
		h.Errorf("%s: got %q (%v), want %s", s.Operation, writ.CodeOf(err), err, want)
	}
	if diff := cmp.Diff(before, h.observe(name)); diff != "" {
		h.Errorf("%s was refused and changed something:\n%s", s.Operation, diff)
	}
}

func (h *host) observe(name string) sal.Observation {
	h.Helper()
	seen, err := h.driver.Observe(h.Context(), Resource(h.exam.kind(), name))
	if err != nil {
		h.Fatalf("observe %s: %v", name, err)
	}
	return seen
}

// listed reports whether the driver lists a resource.
func (h *host) listed(resource writ.ResourceID) bool {
	h.Helper()
	all, err := h.driver.List(h.Context())
	if err != nil {
		h.Fatalf("list: %v", err)
	}
	return slices.Contains(all, resource)
}

// absent makes sure that nothing is left of the subject.
func (h *host) absent() {
	h.Helper()
	if seen := h.observe(subject); seen.Exists {
		h.Errorf("it still exists: %+v", seen)
	}
	if h.listed(Resource(h.exam.kind(), subject)) {
		h.Error("it is still listed")
	}
	if diff := cmp.Diff(h.before, h.traces(), cmpopts.EquateEmpty()); diff != "" {
		h.Errorf("it left something behind:\n%s", diff)
	}
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return
	}
	if orphans, err := keeper.Orphans(h.Context()); err != nil || len(orphans) > 0 {
		h.Errorf("it left orphans: %v, %v", orphans, err)
	}
}

// kept lets the driver hold the subject against its record, as a runner does when it starts.
func (h *host) kept() []sal.Drift {
	h.Helper()
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return nil
	}
	drift, err := keeper.Keep(h.Context(), Resource(h.exam.kind(), subject))
	if err != nil {
		h.Errorf("keep: %v", err)
	}
	return drift
}

func (e Exam) operation() *catalog.Operation {
	o, _ := catalog.Lookup(e.Make.Operation)
	return o
}

func (e Exam) kind() writ.ResourceKind { return e.operation().Kind }

// with returns Make with other arguments.
func (e Exam) with(args map[string]any) Step { return Step{e.Make.Operation, args} }

// remove is the module's Remove operation.
func (e Exam) remove() Step {
	for _, o := range catalog.Of(e.operation().Module) {
		if o.Effect == catalog.Remove {
			return Step{Operation: o.Name()}
		}
	}
	return Step{}
}

func (e Exam) describesItself(t *testing.T) {
	h := e.newHost(t)
	d := h.driver.Describe()
	if d.Module != e.operation().Module || d.Name == "" {
		t.Errorf("it says of itself %+v", d)
	}
	if d.Simulated != (d.Name == "simulated") {
		t.Errorf("name and simulation disagree: %+v", d)
	}
	h.restart(nil)
	if diff := cmp.Diff(d, h.driver.Describe()); diff != "" {
		t.Errorf("after a restart it says something else:\n%s", diff)
	}
}

func (e Exam) makesItSoOnce(t *testing.T) {
	h := e.newHost(t)
	h.absent()
	made := h.expect(e.Make, writ.ChangeCreated)
	seen := h.observe(subject)
	if !seen.Exists || seen.UID != uidOf(subject) || !h.listed(Resource(e.kind(), subject)) {
		t.Errorf("after it was made: %+v", seen)
	}
	if diff := cmp.Diff(made.Values, seen.Values); diff != "" {
		t.Errorf("the result is not what is observed:\n%s", diff)
	}
	again := h.expect(e.Make, writ.ChangeUnchanged)
	h.restart(nil)
	third := h.expect(e.Make, writ.ChangeUnchanged)
	for _, o := range []sal.Outcome{again, third} {
		if diff := cmp.Diff(made.Values, o.Values); diff != "" {
			t.Errorf("asking again gives another result:\n%s", diff)
		}
	}
	if diff := cmp.Diff(seen, h.observe(subject)); diff != "" {
		t.Errorf("asking again changed something:\n%s", diff)
	}

	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
	h.expect(e.remove(), writ.ChangeUnchanged)
	h.restart(nil)
	h.absent()
	h.must(h.do(t.Context(), e.Make, subject, "0192f6c2-7d3a-7000-9000-the-second-one"))
	if seen := h.observe(subject); seen.UID != "0192f6c2-7d3a-7000-9000-the-second-one" {
		t.Errorf("made anew it has the id %s", seen.UID)
	}
}

func (e Exam) bindsToUID(t *testing.T) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	for _, s := range append([]Step{e.Make, e.remove()}, e.Steps...) {
		h.refuse(s, subject, "0192f6c2-7d3a-7000-9000-somebody-else", writ.CodeResourceConflict)
	}
}

func (e Exam) changesOnlyMutable(t *testing.T) {
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

func (e Exam) repeatsEverySteps(t *testing.T) {
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	for _, s := range e.Steps {
		o, _ := catalog.Lookup(s.Operation)
		first := h.must(h.step(s))
		if o.Effect == catalog.Look || o.Repeat == catalog.Once {
			continue
		}
		if first.Change != writ.ChangeUpdated {
			t.Errorf("%s says %q, want %q", s.Operation, first.Change, writ.ChangeUpdated)
		}
		h.restart(nil)
		again := h.expect(s, writ.ChangeUnchanged)
		if diff := cmp.Diff(first.Values, again.Values); diff != "" {
			t.Errorf("%s gives another result when it is repeated:\n%s", s.Operation, diff)
		}
	}
	h.expect(e.Make, writ.ChangeUnchanged) // what Alter did is not undone
	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
}

func (e Exam) knowsNothing(t *testing.T) {
	h := e.newHost(t)
	for _, s := range e.Steps {
		h.refuse(s, subject, uidOf(subject), writ.CodeResourceUnknown)
	}
	if seen := h.observe(subject); !cmp.Equal(seen, sal.Observation{}, cmpopts.EquateEmpty()) {
		t.Errorf("it sees %+v", seen)
	}
	h.expect(e.remove(), writ.ChangeUnchanged)
}

func (e Exam) keepsProjectsApart(t *testing.T) {
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
		t.Error("deleting ours took theirs")
	}
}

func (e Exam) worksOnManyAtOnce(t *testing.T) {
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

// keepsWhatItMade holds the subject against its record after every step: there is nothing to say, and nothing changes.
func (e Exam) keepsWhatItMade(t *testing.T) {
	h := e.newHost(t)
	if _, ok := h.driver.(sal.Keeper); !ok {
		t.Skip("the driver keeps nothing")
	}
	if drift := h.kept(); len(drift) > 0 {
		t.Errorf("of what is not there it says %+v", drift)
	}
	for _, s := range append([]Step{e.Make}, e.Steps...) {
		h.must(h.step(s))
		h.restart(nil)
		before := h.observe(subject)
		if drift := h.kept(); len(drift) > 0 {
			t.Errorf("after %s it says %+v", s.Operation, drift)
		}
		if diff := cmp.Diff(before, h.observe(subject)); diff != "" {
			t.Errorf("after %s, holding it against its record changed something:\n%s", s.Operation, diff)
		}
	}
	h.expect(e.remove(), writ.ChangeDeleted)
	h.absent()
}

// Remedies says how what belongs to no resource is taken away by hand, for testenv.Empties. Each orphan must have a line that does it.
func Remedies(t testing.TB, keeper sal.Keeper) func() []string {
	return func() (lines []string) {
		t.Helper()
		orphans, err := keeper.Orphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range orphans {
			if o.Remedy == "" {
				t.Fatalf("%+v cannot be taken away", o)
			}
			lines = append(lines, o.Remedy)
		}
		return lines
	}
}
