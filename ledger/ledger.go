// Package ledger is the contract of a coordinator's central records: rosters, received submissions, and copies of the
// runs, calls, nodes and resources of the datacenters. The ledger is the source of truth only for rosters and waiting
// submissions. Everything else is a copy that events keep up to date, and datacenters work without it. Arguments and
// values of operations are never stored here. The package must not know HTTP, Redis or policy: callers verify before
// they write. Package ledger/ledgertest is the conformance suite.
package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"writ"
	"writ/identity"
)

// Ledger stores all records of a coordinator.
//
// All methods may be called concurrently. A method that changes records has stored the change durably when it returns
// nil, and has changed nothing when it returns an error. Errors are *writ.Error where the caller can act on them:
// NOT_FOUND, CONFLICT, BAD_REQUEST for a cursor of another ledger, and STORE_UNAVAILABLE while the store cannot be
// used. Returned values belong to the caller.
type Ledger interface {
	Rosters
	Registrations
	Submissions
	Records
	Usages
	Events
	Webhooks

	// Check returns nil if the ledger can be written now. It returns STORE_UNAVAILABLE if the disk is full, read-only
	// or missing.
	Check(ctx context.Context) error
	// Prune deletes events stored before events, and runs that ended before runs with their calls and submissions.
	Prune(ctx context.Context, events, runs time.Time) error
	// Close releases the resources of the ledger. No method may be called afterwards.
	Close() error
}

// Rosters stores every version of the roster forever, and the content of the newest version as rows that can be listed.
type Rosters interface {
	// AddRoster stores a verified roster with its signed bytes, and deletes the registrations of supervisors that the
	// roster names. A version that is already stored with the same bytes changes nothing. Any other version that is not
	// higher than all stored ones is a CONFLICT. Versions may be skipped, as in a recovery.
	AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error
	// RosterLinks lists the versions after a version, oldest first. It includes skipped versions, whose texts the
	// ledger does not have.
	RosterLinks(ctx context.Context, after int) ([]identity.RosterLink, error)
	// Roster returns the signed bytes of a version. The error is NOT_FOUND for a version without a text.
	Roster(ctx context.Context, version int) ([]byte, error)
	// Regions lists the regions of the newest roster by name.
	Regions(ctx context.Context) ([]Region, error)
	// Datacenters lists the datacenters of the newest roster by region and name.
	Datacenters(ctx context.Context) ([]Datacenter, error)
	// Projects lists the projects of the newest roster by name and id.
	Projects(ctx context.Context) ([]identity.Project, error)
}

// Region is a location of datacenters.
type Region struct {
	Name        string `json:"name"`
	Datacenters int    `json:"datacenters"` // number of datacenters in the region
}

// Datacenter is a datacenter as recorded in the roster.
type Datacenter struct {
	writ.Datacenter
	Key     string `json:"key"` // fingerprint of its supervisor's key, "SHA256:…"
	Enabled bool   `json:"enabled"`
}

// MaxRegistrations limits the supervisors that wait for a place in the roster. A registration needs no right, so the
// number must be bounded.
const MaxRegistrations = 100

// Registrations stores the supervisors that wait for a place in the roster.
type Registrations interface {
	// AddRegistration stores a registration. An identical registration changes nothing. No registration replaces
	// another: the same key and token with another proof is a separate registration. If more than MaxRegistrations
	// wait, the network with the most registrations loses one: its oldest without a proof, or its oldest if all have
	// one. If that is the new registration, the error is RATE_LIMITED.
	AddRegistration(ctx context.Context, registration Registration) error
	// Registrations lists the waiting registrations, oldest first.
	Registrations(ctx context.Context) ([]Registration, error)
	// RemoveRegistrations deletes the registrations received before a time.
	RemoveRegistrations(ctx context.Context, before time.Time) error
}

// Registration is a supervisor's request for a place in the roster. Its content is not verified here: the operator who
// adds the key to the roster has the token and verifies the proof.
type Registration struct {
	Token    string // id of the token, "" if none
	Name     string // requested name of the datacenter
	Key      []byte // ed25519 public key of the supervisor
	Nonce    []byte // 32 random bytes
	Proof    []byte // proof of the token over identity.RegistrationText
	URL      string // address for the supervisor's nodes, "" if not given
	Network  string // network of origin, set by the caller like Received
	Received time.Time
}

// ID returns a digest of the supervisor's own fields, without Network and Received.
func (r Registration) ID() writ.Digest {
	return writ.DigestOf(fmt.Appendf(nil, "%q %q %x %x %x %q", r.Token, r.Name, r.Key, r.Nonce, r.Proof, r.URL))
}

// Submissions stores submissions. They change state as writ.SubmissionMoves allows. Each change is a compare-and-set
// and stores an event.
type Submissions interface {
	// AddSubmission stores a verified submission as waiting, and a waiting run for it. If a submission with the same
	// payload exists, in any state and with any signature, nothing changes: AddSubmission returns the existing
	// submission and added is false.
	AddSubmission(ctx context.Context, incoming Incoming) (submission writ.Submission, added bool, err error)
	// Submission returns a submission by the digest of its payload.
	Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error)
	// Signed returns the bytes of a submission: text and signature.
	Signed(ctx context.Context, payload writ.Digest) ([]byte, error)
	// WaitingProjects lists the projects with submissions that wait for a datacenter.
	WaitingProjects(ctx context.Context, datacenter writ.DatacenterID) ([]writ.ProjectID, error)
	// Waiting lists at most max submissions of a project that wait for a datacenter, in order of arrival after a
	// position. The zero Position is before all submissions.
	Waiting(ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID, after Position, max int) ([]writ.Submission, error)
	// WaitingBySigner totals the waiting submissions of each signer.
	WaitingBySigner(ctx context.Context) (map[string]Waits, error)
	// Overdue lists at most max waiting submissions of any datacenter that expired before now, earliest expiry first.
	Overdue(ctx context.Context, now time.Time, max int) ([]writ.Submission, error)
	// Deliver records that the submission's datacenter accepted it as run. The ledger copies run unless events of the
	// datacenter have reported the run before. A delivered submission stays delivered; any other state is a CONFLICT.
	// If run is not the submission's run, the error is EXEC_ERROR: the datacenter answered for another submission.
	Deliver(ctx context.Context, payload writ.Digest, run writ.Run) error
	// Reject moves a waiting submission and its run to refused or expired, with a reason. It deletes the text, and
	// keeps only the newest MaxRejected rejected submissions of a signer. Any state except waiting is a CONFLICT, so a
	// submission is never both delivered and refused.
	Reject(ctx context.Context, payload writ.Digest, to writ.SubmissionState, reason *writ.Error) error
}

// Waits is the total of submissions that wait for datacenters.
type Waits struct {
	Submissions int64
	Bytes       int64 // total size of the signed texts
}

// Plus returns w + v.
func (w Waits) Plus(v Waits) Waits { return Waits{w.Submissions + v.Submissions, w.Bytes + v.Bytes} }

// Incoming is a new submission, with the fields to show for its run until the datacenter accepts it.
type Incoming struct {
	writ.Submission
	ProjectName string
	Deployment  string // as in the payload's header, may be empty
	Plan        writ.Digest
	Params      map[string]any // as in the payload
	Signed      []byte
}

// Position is a position in the order of arrival.
type Position struct {
	Received time.Time
	Payload  writ.Digest
}

// PositionOf returns the position of a submission.
func PositionOf(s writ.Submission) Position { return Position{s.Received, s.Payload} }

// State is the state of a run as the ledger shows it: the run's own state once its datacenter has accepted it, and the
// submission's state before.
type State string

// The states of a run before its datacenter accepts it. The other states are those of writ.RunState. Expired is a state
// of both.
const (
	StateWaiting = State(writ.SubmissionWaiting)
	StateRefused = State(writ.SubmissionRefused)
)

// States lists every state of a run, in the order in which a run can reach them.
var States = []State{
	StateWaiting, StateRefused, State(writ.RunAccepted), State(writ.RunRunning),
	State(writ.RunSucceeded), State(writ.RunFailed), State(writ.RunCancelled), State(writ.RunExpired),
}

// Run is the ledger's copy of a run, without output. Run.State and Run.Accepted are zero until the datacenter accepts
// the run.
type Run struct {
	writ.Run
	State State
	// Created is when the submission arrived, or when a run without a submission was accepted; lists are sorted by it.
	Created time.Time
}

// Records holds copies of the datacenters' records.
type Records interface {
	Run(ctx context.Context, id writ.RunID) (Run, error)
	// Runs lists runs, newest first unless the filter sets Oldest.
	Runs(ctx context.Context, filter RunFilter, page Page) (List[Run], error)
	// CountRuns counts the selected runs by project and state.
	CountRuns(ctx context.Context, filter RunFilter) (RunCounts, error)
	// Failures groups the selected runs by code and operation. It returns at most max groups, largest first.
	Failures(ctx context.Context, filter RunFilter, max int) ([]Failures, error)
	// LastHeard returns when the ledger stored the last event of each run. Log lines do not count. A run without stored
	// events has no entry.
	LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error)
	// Unreported lists open runs of a datacenter after one of them, by id, that this journal of it has not told of: at most max, and fewer if they
	// are large. Without any it is empty.
	Unreported(ctx context.Context, datacenter writ.DatacenterID, journal string, after writ.RunID, max int) ([]Run, error)
	// Restate records a datacenter's answer to a question about a run, and stores an event. If the run has ended, it
	// also ends the run's open calls. It changes nothing once an event of the journal has reported the run.
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

// Usages stores the hourly usage of resources forever, for billing.
type Usages interface {
	// Usage sums the usage of each resource, ordered by project, kind, name and UID.
	Usage(ctx context.Context, filter UsageFilter, page Page) (List[Usage], error)
	// UsageOfProjects sums the usage of each project, ordered by project. A project without usage has no entry.
	UsageOfProjects(ctx context.Context, filter UsageFilter, page Page) (List[ProjectUsage], error)
}

// UsageFilter selects hours of usage. An empty field selects all.
type UsageFilter struct {
	Projects    []writ.ProjectID
	Datacenter  writ.DatacenterID
	From, Until time.Time // the hours that start at From or later and before Until
}

// Usage is the usage of one resource, summed over the selected hours.
type Usage struct {
	writ.ResourceID
	UID         writ.UID          `json:"uid"`
	Datacenter  writ.DatacenterID `json:"datacenter"`
	First, Last time.Time         `json:"-"` // the first and the last hour with usage, by their start
	writ.Used
}

// ProjectUsage is the usage of a project's resources, summed over the selected hours.
type ProjectUsage struct {
	Project   writ.ProjectID
	Resources int // number of entries of the project in Usage
	writ.Used
}

// Limits of pages and lists.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	// MaxRejected limits the refused or expired submissions that are stored for each signer.
	MaxRejected = 1_000
)

// Page requests a page of a list.
type Page struct {
	Limit  int    // 0 means DefaultLimit; at most MaxLimit
	Cursor string // Next of the previous page, "" for the first page
}

// List is a page of a list. It may have fewer items than the page's limit although more pages follow, if the items are
// large. Items that are added or removed between two pages never cause a duplicate or an omission of other items.
type List[T any] struct {
	Items []T
	Next  string // cursor of the next page, "" on the last page
}

// All iterates over the selected items, page by page. If the list returns an error, All yields it and ends.
func All[F, T any](ctx context.Context, list func(context.Context, F, Page) (List[T], error), filter F) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page := (Page{Limit: MaxLimit}); ; {
			some, err := list(ctx, filter, page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range some.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Cursor = some.Next; page.Cursor == "" {
				return
			}
		}
	}
}

// RunCounts counts runs by project and state. Zero counts have no entry.
type RunCounts map[writ.ProjectID]map[State]int

// Sum adds up the counts of the projects for which selects returns true.
func (c RunCounts) Sum(selects func(project writ.ProjectID) bool) map[State]int {
	sum := map[State]int{}
	for project, counts := range c {
		if !selects(project) {
			continue
		}
		for state, n := range counts {
			sum[state] += n
		}
	}
	return sum
}

// Total adds up the counts of all projects.
func (c RunCounts) Total() map[State]int {
	return c.Sum(func(writ.ProjectID) bool { return true })
}

// RunFilter selects runs. An empty field selects all.
type RunFilter struct {
	States     []State
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Signer     string
	Prefix     string // of the run's id
	Script     string // file name of the script
	Deployment string // name of the deployment
	// Text is a substring of a name, a parameter or the error that ended the run, or the start of a resource name;
	// case-insensitive.
	Text      string
	Since     time.Time // runs created at this time or later
	Failure   writ.Code // runs that ended with this code
	Operation string    // runs ended by a call of this operation; NoOperation selects runs that ended without a call
	// Silent selects open runs created before this time that have no later event except log lines, or that repeat a call; see
	// LoopCalls.
	Silent time.Time
	Oldest bool // not a condition: sorts the list from the oldest run
}

// LoopCalls is the number of consecutive calls that count as an endless loop, if all come from one line of a script,
// act on one resource, and each started after the end of the previous one. A run that polls has events all the time, so
// silence does not detect it.
const LoopCalls = 50

// MaxText limits the length of RunFilter.Text, in characters.
const MaxText = 200

// NoOperation selects runs that failed without a call.
const NoOperation = "-"

// Failures is a group of runs that ended with the same code in the same operation. Runs that ended before the ledger
// stored these fields are not counted.
type Failures struct {
	Code      writ.Code
	Operation string // of the call that ended the run, "" if none
	Runs      int
	Newest    time.Time // creation time of the newest run
}

// NodeFilter selects nodes. An empty field selects all nodes except removed ones.
type NodeFilter struct {
	Datacenter writ.DatacenterID
	Admission  writ.Admission
	Nodes      []writ.NodeID
	Names      []string
}

// Selects reports whether the filter selects n.
func (f NodeFilter) Selects(n writ.Node) bool {
	admitted := n.Admission == f.Admission || f.Admission == "" && n.Admission != writ.AdmissionRemoved
	return admitted && (f.Datacenter == "" || n.Datacenter == f.Datacenter) && (len(f.Nodes) == 0 || slices.Contains(f.Nodes, n.ID)) &&
		(len(f.Names) == 0 || slices.Contains(f.Names, n.Name))
}

// ResourceFilter selects resources. An empty field selects all.
type ResourceFilter struct {
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Kind       writ.ResourceKind
	Node       writ.NodeID
	Deployment string
}

// Deployment is an owner of resources of a project in a datacenter.
type Deployment struct {
	Datacenter writ.DatacenterID
	Project    writ.ProjectID
	Name       string
	Resources  int // number of selected resources
}

// Newest returns the deployment's newest run, nil if no run is stored, and the newest revision that the datacenter
// accepted, 0 if unknown. The run and the revision do not match if the newest run waits or was refused.
func (d Deployment) Newest(ctx context.Context, runs func(context.Context, RunFilter, Page) (List[Run], error)) (newest *Run, revision int, err error) {
	for _, limit := range []int{1, 20} { // the newest run usually has a revision
		list, err := runs(ctx, d.Runs(), Page{Limit: limit})
		if err != nil || len(list.Items) == 0 {
			return nil, 0, err
		}
		for _, run := range list.Items {
			if run.Revision > 0 {
				return &list.Items[0], run.Revision, nil
			}
		}
		newest = &list.Items[0]
	}
	return newest, 0, nil
}

// Runs returns a filter for the runs of the deployment.
func (d Deployment) Runs() RunFilter {
	return RunFilter{Datacenter: d.Datacenter, Projects: []writ.ProjectID{d.Project}, Deployment: d.Name}
}

// Events stores events in one global order. Its first two methods make a ledger a sink for the events of a link.
type Events interface {
	// LastEvent returns the sequence number and the time of the last stored event of a journal. seq is 0 for an unknown
	// journal.
	LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (seq int64, at time.Time, err error)
	// StoreEvents stores consecutive events of one journal and updates the copies, all or nothing. Events about usage
	// are only added up. Events that are already stored are skipped. A gap is a CONFLICT. Only the first event of a
	// journal may have any number, because a datacenter deletes events that another ledger acknowledged.
	//
	// An event is stored under the datacenter that sent it and changes only copies of that datacenter, regardless of
	// its content. An event of a run ends the waiting of its submission. The first events of a new journal delete the
	// datacenter's nodes and resources: a journal restored from a backup reports all of them again.
	StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error
	// Events returns at most max events with ids greater than after, oldest first, or fewer if they are large. more
	// reports that a limit ended the list, so more events may follow. A newly visible event has a higher id than all
	// events that were visible before.
	Events(ctx context.Context, after int64, filter EventFilter, max int) (events []Event, more bool, err error)
	// Shares returns the bytes used by the events of each datacenter, including the copies that they made. It is an
	// upper estimate: a copy counts for each event that changed it, until the copy is deleted.
	Shares(ctx context.Context) (map[writ.DatacenterID]int64, error)
	// EventRange returns the ids of the oldest and the newest stored event. Without stored events, newest is the id of
	// the last event ever stored.
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// Webhooks stores the progress of each webhook, by the name that an operator gave it.
type Webhooks interface {
	// WebhookAt returns the progress of a webhook, nil for a new one.
	WebhookAt(ctx context.Context, name string) (*WebhookPlace, error)
	// SetWebhookAt stores the progress of a webhook, even if it is earlier than the stored one.
	SetWebhookAt(ctx context.Context, name string, at WebhookPlace) error
}

// WebhookPlace is the progress of a webhook through the events.
type WebhookPlace struct {
	Event int64 // id of the last event that was delivered or skipped
	// Lost holds the nodes that were lost at that event, "DATACENTER/NODE", with the time of their last beat.
	Lost map[string]time.Time
}

// Event is an event of a datacenter, or of the ledger itself if a submission changed its state or a run was restated.
// Events of the ledger have an empty Journal and Seq 0.
type Event struct {
	ID         int64             `json:"id"` // increasing id in this ledger
	Datacenter writ.DatacenterID `json:"datacenter"`
	writ.Event
	Submission *writ.Submission `json:"submission,omitempty"`
	// About is the run whose watchers get the event, "" if none. It can differ from RunID: a datacenter's event about a
	// run of another datacenter is not an event of that run.
	About writ.RunID `json:"-"`
	// Project owns the event: the project of the submission, the resource, or the run in About. It is "" for a
	// datacenter's event about an unknown run or a run of another datacenter.
	Project writ.ProjectID `json:"-"`
}

// TopicSubmission is the topic of an event about a submission.
const TopicSubmission = "submission"

// Topics lists the topics of events.
var Topics = []string{TopicSubmission, "run", "call", "log", "node", "resource"}

// Topic returns the topic of the event.
func (e *Event) Topic() string {
	if e.Submission != nil {
		return TopicSubmission
	}
	return e.Event.Topic()
}

// RunID returns the run that the event belongs to. It is "" for an event about a node.
func (e *Event) RunID() writ.RunID {
	if e.Submission != nil {
		return e.Submission.Run
	}
	return e.Event.RunID()
}

// EventFilter selects events. An empty field selects all.
type EventFilter struct {
	Topics     []string
	Run        writ.RunID
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
}

// Selects reports whether the filter selects an event returned by a ledger.
func (f EventFilter) Selects(e *Event) bool {
	return (len(f.Topics) == 0 || slices.Contains(f.Topics, e.Topic())) &&
		(f.Run == "" || f.Run == e.About) &&
		(len(f.Projects) == 0 || slices.Contains(f.Projects, e.Project)) &&
		(f.Datacenter == "" || f.Datacenter == e.Datacenter)
}

// NotThere returns the NOT_FOUND error for a missing record. Coordinators also return it for records that the reader
// may not see.
func NotThere(what string, id any) error {
	return writ.Errorf(writ.CodeNotFound, "there is no %s %v", what, id)
}
