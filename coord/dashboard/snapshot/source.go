package snapshot

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/ledger"
	"writ/supervisor/link"
)

// Ledger is the part of ledger.Ledger that the pages read.
type Ledger interface {
	Projects(ctx context.Context) ([]identity.Project, error)
	Run(ctx context.Context, id writ.RunID) (ledger.Run, error)
	Runs(ctx context.Context, filter ledger.RunFilter, page ledger.Page) (ledger.List[ledger.Run], error)
	CountRuns(ctx context.Context, filter ledger.RunFilter) (ledger.RunCounts, error)
	Failures(ctx context.Context, filter ledger.RunFilter, max int) ([]ledger.Failures, error)
	LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error)
	Calls(ctx context.Context, run writ.RunID, page ledger.Page) (ledger.List[writ.Call], error)
	CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error)
	Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error)
	OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error)
	Signed(ctx context.Context, payload writ.Digest) ([]byte, error)
	Resources(ctx context.Context, filter ledger.ResourceFilter, page ledger.Page) (ledger.List[writ.Resource], error)
	CountResources(ctx context.Context, filter ledger.ResourceFilter) (map[writ.ResourceKind]int, error)
	Deployments(
		ctx context.Context, filter ledger.ResourceFilter, page ledger.Page,
	) (ledger.List[ledger.Deployment], error)
	Events(
		ctx context.Context, after int64, filter ledger.EventFilter, max int,
	) (events []ledger.Event, more bool, err error)
	Usage(ctx context.Context, filter ledger.UsageFilter, page ledger.Page) (ledger.List[ledger.Usage], error)
	UsageOfProjects(
		ctx context.Context, filter ledger.UsageFilter, page ledger.Page,
	) (ledger.List[ledger.ProjectUsage], error)
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// LiveView provides the live state of the datacenters.
type LiveView interface {
	// Datacenters lists the datacenters of the roster with their health.
	Datacenters(ctx context.Context) ([]api.Datacenter, error)
	// Queues asks every datacenter for the depth of its queues. The entry of an unreachable datacenter has an error.
	Queues(ctx context.Context) ([]api.DatacenterQueues, error)
	// Holds asks all datacenters, or the datacenter `only`, for their holds. The entry of an unreachable datacenter has
	// an error.
	Holds(ctx context.Context, only writ.DatacenterID) ([]api.DatacenterHolds, error)
	// Boots asks all datacenters, or the datacenter `only`, for their booting machines: the number, and at most the
	// `most` newest machines of each datacenter. The entry of an unreachable datacenter has an error.
	Boots(ctx context.Context, only writ.DatacenterID, most int) ([]api.DatacenterBoots, error)
	// Why returns the reason why each run waits, as the API does.
	Why(ctx context.Context, runs ...ledger.Run) (map[writ.RunID]writ.Reason, error)
	// Certificate returns the certificate that signed a submission, nil if it was signed by a plain key.
	Certificate(ctx context.Context, signed []byte) (*identity.Certificate, error)
	// Output returns the output of a run from the summary that its datacenter signed, or nil without a summary.
	Output(ctx context.Context, run ledger.Run) (map[string]any, error)
	// Secrets asks all datacenters, or the datacenter `only`, for the secrets of some projects. An empty list means all
	// projects. The entry of an unreachable datacenter has an error.
	Secrets(ctx context.Context, only writ.DatacenterID, projects []writ.ProjectID) ([]api.DatacenterSecrets, error)
	// Values asks the datacenter of a run for its output, and for the arguments and results of its next max calls after
	// number `after`.
	Values(ctx context.Context, run writ.RunID, after, max int) (api.RunValues, error)
	// LogLines asks the datacenter of a run for at most max log lines after line `after`.
	LogLines(ctx context.Context, run writ.RunID, after, max int) ([]writ.LogLine, error)
	// NodeLog asks a node, through its datacenter, for lines of its log.
	NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error)
	// Loads asks the datacenters of resources for their load, with samples of the last day for the first 20.
	Loads(ctx context.Context, resources []writ.Resource) ([]api.ListedResource, error)
	// News returns a channel that is closed when the ledger stores a row after the call.
	News() <-chan struct{}
}

// Source reads the data of all pages. Its fields are required.
type Source struct {
	Ledger   Ledger
	LiveView LiveView
	Log      *slog.Logger
	// Reader returns the reader of an admitted request.
	Reader func(ctx context.Context) page.Reader

	now     cache
	History history
}

// RunOf returns a run that the sender of a request may read. The error is the same for an unreadable run and a missing
// one.
func (s *Source) RunOf(ctx context.Context, id writ.RunID) (ledger.Run, error) {
	run, err := s.Ledger.Run(ctx, id)
	if err == nil && !s.Reader(ctx).Reads(run.Project) {
		return ledger.Run{}, ledger.NotThere("run", id)
	}
	return run, err
}

// projectsOf lists the projects that the reader of a request may choose from.
func (s *Source) projectsOf(ctx context.Context, now *Snapshot) (readable []identity.Project) {
	reader := s.Reader(ctx)
	for _, known := range now.projects {
		if reader.Reads(known.ID) {
			readable = append(readable, known)
		}
	}
	return readable
}

// Selection holds the project and the datacenter that an address selects, "" for all. Projects and Datacenters are the
// choices that the reader has.
type Selection struct {
	Project     writ.ProjectID
	Datacenter  writ.DatacenterID
	Projects    []identity.Project
	Datacenters []api.Datacenter
}

// SelectionOf parses the selection of an address.
func (s *Source) SelectionOf(ctx context.Context, now *Snapshot, q url.Values) Selection {
	return Selection{
		writ.ProjectID(q.Get("project")), writ.DatacenterID(q.Get("datacenter")), s.projectsOf(ctx, now), now.Datacenters,
	}
}

// Choose renders the form fields of the selection.
func (s Selection) Choose() Node {
	return Group{page.ChooseProject(s.Projects, s.Project), page.ChooseDatacenter(s.Datacenters, s.Datacenter)}
}
