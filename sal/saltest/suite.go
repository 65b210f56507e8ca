// Package saltest is the conformance suite for drivers, real or simulated: it tests the promises of package sal. It
// uses drivers only through sal.Driver and a directory that represents their host.
package saltest

import (
	"slices"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Suite describes the tests for the driver of one module.
type Suite struct {
	// Open opens the driver on a host, which is a directory, as a runner does at startup. An earlier driver of the host
	// left only the state on that host. The driver must call step before each change to the host, so that the suite can
	// stop the driver at that point. A driver without steps is not tested for crashes.
	Open func(t testing.TB, host string, step func(name string)) sal.Driver
	// Hosts creates the directories. The default is plain directories; a driver whose state is more than the files in its
	// directory needs its own Hosts, or Clear.
	Hosts Hosts
	// Prepare creates the objects of other drivers on a new host. It may be nil.
	Prepare func(t testing.TB, host string)
	// Others are resources of the same driver that the steps refer to; see RefTo.
	Others []Other
	// Make is a Make operation that creates the subject.
	Make Step
	// Mutable and Immutable are the arguments of Make with one field changed. They may be nil.
	Mutable, Immutable map[string]any
	// Steps are further operations on the subject, in a valid order.
	Steps []Step
	// Run is an operation that runs a program once (catalog.Resume). It may be empty. Ran counts the executions of the
	// program on a host.
	Run Step
	Ran func(t testing.TB, host string) int
	// Clear removes everything that the drivers created on a host outside its directory: processes, links, mounts. It may
	// be nil if there are no such objects. If there are, a copy of the directory cannot restore an earlier state of the
	// host. The suite then replays the operations up to that state.
	Clear func(t testing.TB, host string)
	// Sparse means that creating the resource takes a few tenths of a second or more. A disturbed operation is then
	// followed by either a repetition or a cleanup, in turn; WRIT_TEST_LONG=1 enables both.
	Sparse bool
	// Traces describes the drivers' objects on a host outside its directory: "process 12 of m7k…", "link t5…". After a
	// resource is deleted, the traces must equal the traces before its creation. Traces may be nil.
	Traces func(t testing.TB, host string) []string
	// Handed lists patterns (filepath.Match) of files below the host's directory that pass values to the driver's tool.
	// Such a file may contain the value of a secret if only its owner can read the file, and must be deleted with its
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
	part := func(name string, test func(t *testing.T, e Suite)) {
		t.Run(name, func(t *testing.T) { test(t, e) })
	}
	part("DescribesItself", describesItself)
	part("MakesItSoOnce", makesItSoOnce)
	part("BindsAResourceToItsUID", bindsToUID)
	part("ChangesOnlyWhatMayBeChanged", changesOnlyMutable)
	part("RepeatsEveryStep", repeatsEveryStep)
	part("KnowsNothingThatIsNotThere", knowsNothing)
	part("KeepsProjectsApart", keepsProjectsApart)
	part("WorksOnManyAtOnce", worksOnManyAtOnce)
	part("KeepsWhatItMade", keepsWhatItMade)
	part("StaysFenced", staysFenced)
	part("GoesOnBesideADamagedRecord", goesOnBesideADamagedRecord)
	part("StopsWhenTheContextEnds", stopsWithContext)
	part("GoesOnAfterACrashAnywhere", goesOnAfterCrash)
	part("TellsWhatWasWritten", tellsWhatWasWritten)
	part("RunsAProgramOnce", runsOnce)
	part("KeepsNoSecret", func(t *testing.T, e Suite) { keepsNoSecret(t, e) })
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

// traces returns the drivers' objects on a host, sorted.
func (e Suite) traces(t testing.TB, host string) []string {
	if e.Traces == nil {
		return nil
	}
	return slices.Sorted(slices.Values(e.Traces(t, host)))
}
