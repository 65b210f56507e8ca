package ledger

import (
	"context"
	"time"

	"writ"
)

// Records holds copies of the datacenters' records.
type Records interface {
	// Run returns the copy of a run. The error is NOT_FOUND for an unknown run.
	Run(ctx context.Context, id writ.RunID) (Run, error)
	// Runs lists runs, newest first unless the filter sets Oldest.
	Runs(ctx context.Context, filter RunFilter, page Page) (List[Run], error)
	// CountRuns counts the selected runs by project and state. MaxExamined limits the counts of some filters.
	CountRuns(ctx context.Context, filter RunFilter) (RunCounts, error)
	// Failures groups the selected runs by code and operation, among the newest MaxExamined failed runs. It returns at most
	// max groups, largest first.
	Failures(ctx context.Context, filter RunFilter, max int) ([]Failures, error)
	// LatestEnd returns the latest time at which a run ended, by the clock of its datacenter. Runs that no datacenter
	// accepted do not count. The time is zero if no run has ended.
	LatestEnd(ctx context.Context) (time.Time, error)
	// LastHeard returns when the ledger stored the last event of each run. Log lines do not count. A run without stored
	// events has no entry.
	LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error)
	// Unreported lists at most max open runs of a datacenter that no event of this journal has reported. The runs are
	// sorted by id and start after the run `after`. The list may be shorter if the runs are large, but it is empty only
	// if no run follows.
	Unreported(ctx context.Context, datacenter writ.DatacenterID, journal string, after writ.RunID, max int) ([]Run,
		error)
	// Restate records a datacenter's answer to a question about a run, and stores an event. If the run has ended, it
	// also ends the run's open calls. It has no effect once an event of the journal has reported the run.
	Restate(ctx context.Context, datacenter writ.DatacenterID, journal string, run writ.Run) error
	// Calls lists the calls of a run by seq. The list is empty for an unknown run.
	Calls(ctx context.Context, run writ.RunID, page Page) (List[writ.Call], error)
	// CountCalls counts the calls of each run by state. A run without calls has no entry.
	CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error)
	// OpenCalls returns the first max open calls of each run, by seq. A run without open calls has no entry.
	OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error)
	// Repeated returns the newest call of each run that repeats a call; see LoopCalls. Other runs have no entry.
	Repeated(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]writ.Call, error)
	// Nodes lists nodes by datacenter and name. It includes removed nodes only if the filter selects them.
	Nodes(ctx context.Context, filter NodeFilter, page Page) (List[writ.Node], error)
	// Resources lists resources by datacenter, project, kind and name.
	Resources(ctx context.Context, filter ResourceFilter, page Page) (List[writ.Resource], error)
	// CountResources counts the selected resources by kind.
	CountResources(ctx context.Context, filter ResourceFilter) (map[writ.ResourceKind]int, error)
	// Deployments lists the deployments that own selected resources, by datacenter, project and name.
	Deployments(ctx context.Context, filter ResourceFilter, page Page) (List[Deployment], error)
}
