// Package ledger is the contract of the central records: the rosters, the submissions that came in, and copies of what the
// datacenters say of their runs, calls, nodes and resources. Only rosters and waiting submissions are the truth here; everything else
// is a copy that events keep up to date, and a datacenter works on without it. It must not know HTTP, Redis or policy: whoever writes
// has verified before. Arguments and values of operations never come here. The conformance suite of ledgers is ledger/ledgertest.
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

// Ledger is everything that a coordinator remembers.
//
// All methods may be called concurrently. A method that changes something has done so durably when it returns nil, and has changed
// nothing when it returns an error. Errors are *writ.Error where the caller can do
// something about them: NOT_FOUND, CONFLICT, BAD_REQUEST for a cursor that this ledger did not make, and STORE_UNAVAILABLE when the
// store cannot be used at the moment. What a method returns belongs to the caller.
type Ledger interface {
	Rosters
	Registrations
	Submissions
	Records
	Usages
	Events
	Webhooks

	// Check returns nil if the ledger can be written now, and STORE_UNAVAILABLE if its disk is full, read-only or away.
	Check(ctx context.Context) error
	// Prune forgets events that were stored before one time, and runs that ended before another, with their calls and submissions.
	Prune(ctx context.Context, events, runs time.Time) error
	// Close frees what the ledger holds. Nothing may be called afterwards.
	Close() error
}

// Rosters keeps every version of the roster for ever, and what the newest says as rows that can be listed.
type Rosters interface {
	// AddRoster records a verified roster with its signed bytes, and removes the registrations of supervisors that it names. A
	// version that is there already with the same bytes changes nothing; any other version that is not higher than all of them is a
	// CONFLICT. Versions may be left out: a recovery skips some.
	AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error
	// RosterLinks lists the versions that are newer than after, oldest first. It includes skipped versions, whose texts
	// the ledger does not have.
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

// Region is where datacenters stand.
type Region struct {
	Name        string `json:"name"`
	Datacenters int    `json:"datacenters"` // how many
}

// Datacenter is a datacenter as the roster names it.
type Datacenter struct {
	writ.Datacenter
	Key     string `json:"key"` // fingerprint of its supervisor's key, "SHA256:…"
	Enabled bool   `json:"enabled"`
}

// MaxRegistrations is how many supervisors may wait to be taken into the roster. Registering needs no right, so it must be bounded.
const MaxRegistrations = 100

// Registrations keeps supervisors that wait for a place in the roster.
type Registrations interface {
	// AddRegistration records a registration. The same again changes nothing, and nothing else takes its place: one with the same
	// key and token and another proof is another registration. If MaxRegistrations wait, one of the network that has most of them
	// gives way: the oldest without a proof, or the oldest if each has one. RATE_LIMITED if that is the new one.
	AddRegistration(ctx context.Context, registration Registration) error
	// Registrations lists those that wait, oldest first.
	Registrations(ctx context.Context) ([]Registration, error)
	// RemoveRegistrations forgets those that were received before a time.
	RemoveRegistrations(ctx context.Context, before time.Time) error
}

// Registration is what a supervisor says of itself before the roster names it. Nothing in it is verified here: whoever signs the key
// into the roster has the token and verifies the proof.
type Registration struct {
	Token    string // the token's id, "" if it has none
	Name     string // what the datacenter wants to be called
	Key      []byte // ed25519 public key of the supervisor
	Nonce    []byte // 32 random bytes
	Proof    []byte // of the token, over identity.RegistrationText
	URL      string // where the supervisor's nodes find it, "" if it did not say
	Network  string // that it came from, set by the caller as the next
	Received time.Time
}

// ID is the digest of what the supervisor says, wherever that came from and when.
func (r Registration) ID() writ.Digest {
	return writ.DigestOf(fmt.Appendf(nil, "%q %q %x %x %x %q", r.Token, r.Name, r.Key, r.Nonce, r.Proof, r.URL))
}

// Submissions keeps submissions and moves them by writ.SubmissionMoves, each move by compare-and-set and with its event.
type Submissions interface {
	// AddSubmission records a verified submission as waiting, and its run as one that waits. If a submission with this payload is
	// there already, whatever its state and signature, nothing changes, and that one is returned with added false.
	AddSubmission(ctx context.Context, incoming Incoming) (submission writ.Submission, added bool, err error)
	// Submission returns a submission by the digest of its payload.
	Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error)
	// Signed returns the bytes of a submission: text and signature.
	Signed(ctx context.Context, payload writ.Digest) ([]byte, error)
	// WaitingProjects lists the projects of which submissions wait for a datacenter.
	WaitingProjects(ctx context.Context, datacenter writ.DatacenterID) ([]writ.ProjectID, error)
	// Waiting lists at most max submissions of a project that wait for a datacenter and come after one of them in order of arrival; the
	// zero value of after stands before all.
	Waiting(ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID, after Position, max int) ([]writ.Submission, error)
	// WaitingBySigner counts what waits, by signer.
	WaitingBySigner(ctx context.Context) (map[string]Waits, error)
	// Overdue lists at most max waiting submissions of any datacenter that expired before now, those that expired first in front.
	Overdue(ctx context.Context, now time.Time, max int) ([]writ.Submission, error)
	// Deliver records that the submission's datacenter accepted it as this run, which becomes the ledger's copy unless the
	// datacenter's events have told more already. A submission that is delivered already stays so; any other state is a CONFLICT. A
	// run that is not the submission's is an EXEC_ERROR: the datacenter answered something else.
	Deliver(ctx context.Context, payload writ.Digest, run writ.Run) error
	// Reject moves a waiting submission to refused or expired, for a reason, and its run with it. Its text is forgotten, and of its signer no more
	// than MaxRejected that were rejected are kept, the newest. It is a CONFLICT unless the submission is waiting, so that it cannot be both
	// delivered and refused.
	Reject(ctx context.Context, payload writ.Digest, to writ.SubmissionState, reason *writ.Error) error
}

// Waits is how much waits for datacenters.
type Waits struct {
	Submissions int64
	Bytes       int64 // of signed texts
}

// Plus adds two.
func (w Waits) Plus(v Waits) Waits { return Waits{w.Submissions + v.Submissions, w.Bytes + v.Bytes} }

// Incoming is a submission with what is shown of its run until the datacenter has it.
type Incoming struct {
	writ.Submission
	ProjectName string
	Deployment  string // as in the payload's header, "" for none
	Plan        writ.Digest
	Params      map[string]any // as in the payload
	Signed      []byte
}

// Position is a place in the order of arrival.
type Position struct {
	Received time.Time
	Payload  writ.Digest
}

// PositionOf returns where a submission stands.
func PositionOf(s writ.Submission) Position { return Position{s.Received, s.Payload} }

// State is the state of a run as the ledger shows it: that of the run once its datacenter has it, before that the one of its
// submission.
type State string

// The states that a run has before its datacenter has it. The others are those of writ.RunState; expired is a state of both.
const (
	StateWaiting = State(writ.SubmissionWaiting)
	StateRefused = State(writ.SubmissionRefused)
)

// States lists every state of a run in the order in which a run can pass through them.
var States = []State{
	StateWaiting, StateRefused, State(writ.RunAccepted), State(writ.RunRunning),
	State(writ.RunSucceeded), State(writ.RunFailed), State(writ.RunCancelled), State(writ.RunExpired),
}

// Run is the ledger's copy of a run, without output. While the datacenter does not have the run, Run.State and Run.Accepted are zero.
type Run struct {
	writ.Run
	State   State
	Created time.Time // when the submission came, or when the run was accepted if it came another way; lists are sorted by it
}

// Records are copies of what the datacenters say.
type Records interface {
	// Run returns a run.
	Run(ctx context.Context, id writ.RunID) (Run, error)
	// Runs lists runs, newest first if the filter does not ask for the oldest.
	Runs(ctx context.Context, filter RunFilter, page Page) (List[Run], error)
	// CountRuns counts the runs that a filter selects, of each project in each state.
	CountRuns(ctx context.Context, filter RunFilter) (RunCounts, error)
	// Failures groups the runs that a filter selects by code and operation, at most max groups, those with most runs first.
	Failures(ctx context.Context, filter RunFilter, max int) ([]Failures, error)
	// LastHeard returns when the ledger stored the last event of each run. Log lines do not count. A run whose events
	// are all forgotten has no entry.
	LastHeard(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]time.Time, error)
	// Unreported lists at most max open runs of a datacenter after one of them, by id, that this journal of it has not told of.
	Unreported(ctx context.Context, datacenter writ.DatacenterID, journal string, after writ.RunID, max int) ([]Run, error)
	// Restate records what a datacenter said of a run when it was asked for it, with an event; of an end, also for the run's open calls. It
	// changes nothing once the journal has told of the run.
	Restate(ctx context.Context, datacenter writ.DatacenterID, journal string, run writ.Run) error
	// Calls lists the calls of a run by their numbers. A run that nobody knows has none.
	Calls(ctx context.Context, run writ.RunID, page Page) (List[writ.Call], error)
	// CountCalls counts the calls of runs by state. A run without calls has no entry.
	CountCalls(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]map[writ.CallState]int, error)
	// OpenCalls returns the first open calls of runs by their numbers, at most max of each. A run without open calls has no entry.
	OpenCalls(ctx context.Context, max int, runs ...writ.RunID) (map[writ.RunID][]writ.Call, error)
	// Repeated returns the newest call of each run that repeats a call: see LoopCalls. Other runs have no entry.
	Repeated(ctx context.Context, runs ...writ.RunID) (map[writ.RunID]writ.Call, error)
	// Nodes lists nodes by datacenter and name. Nodes that were removed are listed only if the filter asks for them.
	Nodes(ctx context.Context, filter NodeFilter, page Page) (List[writ.Node], error)
	// Resources lists resources by datacenter, project, kind and name.
	Resources(ctx context.Context, filter ResourceFilter, page Page) (List[writ.Resource], error)
	// CountResources counts the resources that a filter selects, by kind.
	CountResources(ctx context.Context, filter ResourceFilter) (map[writ.ResourceKind]int, error)
	// Deployments lists the deployments that own resources which a filter selects, by datacenter, project and name.
	Deployments(ctx context.Context, filter ResourceFilter, page Page) (List[Deployment], error)
}

// Usages keeps what resources have used, hour by hour and for ever: bills are made of it.
type Usages interface {
	// Usage sums what resources used, one item for each resource, by project, kind, name and uid.
	Usage(ctx context.Context, filter UsageFilter, page Page) (List[Usage], error)
	// UsageOfProjects sums what the resources of each project used, by project. It has none that used nothing.
	UsageOfProjects(ctx context.Context, filter UsageFilter, page Page) (List[ProjectUsage], error)
}

// UsageFilter selects hours of usage; an empty field selects all.
type UsageFilter struct {
	Projects    []writ.ProjectID
	Datacenter  writ.DatacenterID
	From, Until time.Time // hours that began at From or later, and before Until
}

// Usage is what one resource has used in all hours that were asked for.
type Usage struct {
	writ.ResourceID
	UID         writ.UID          `json:"uid"`
	Datacenter  writ.DatacenterID `json:"datacenter"`
	First, Last time.Time         `json:"-"` // when the first and the last hour began in which it used anything
	writ.Used
}

// ProjectUsage is what the resources of a project have used in all hours that were asked for.
type ProjectUsage struct {
	Project   writ.ProjectID
	Resources int // how many items Usage has of the project
	writ.Used
}

// Limits of pages.
const (
	DefaultLimit = 50
	MaxLimit     = 500
	// MaxRejected is how many submissions of a signer that were refused or expired are kept.
	MaxRejected = 1_000
)

// Page asks for a part of a list.
type Page struct {
	Limit  int    // DefaultLimit if 0, never more than MaxLimit
	Cursor string // Next of the page before, "" for the first
}

// List is a part of a list. It may have fewer items than the limit of its page although it is not the last one, if they are large. What is added or removed between two pages never makes an item come twice or be left out.
type List[T any] struct {
	Items []T
	Next  string // the cursor of the next page, "" if this is the last
}

// All yields what a filter selects, page after page. It ends with an error of the list, if there is one.
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

// RunCounts says of each project how many of its runs are in each state; what has no runs has no entry.
type RunCounts map[writ.ProjectID]map[State]int

// Sum adds up the projects that are selected.
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

// Total adds up all projects.
func (c RunCounts) Total() map[State]int {
	return c.Sum(func(writ.ProjectID) bool { return true })
}

// RunFilter selects runs; an empty field selects all.
type RunFilter struct {
	States     []State
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Signer     string
	Prefix     string    // of the run's id
	Script     string    // file name of the script
	Deployment string    // its name
	Text       string    // in a name, a parameter or the error that ended the run, or the beginning of the name of a resource; capitals do not matter
	Since      time.Time // runs that came then or later
	Failure    writ.Code // runs that ended with this code
	Operation  string    // runs that a call of this operation ended; NoOperation for those that no call ended
	Silent     time.Time // open runs that came earlier and have no later event except log lines, or that repeat a call: see LoopCalls
	Oldest     bool      // it selects nothing: the list begins with the run that came first
}

// LoopCalls is the number of consecutive calls that count as an endless loop if one line of a script made them for one
// resource, each after the end of the one before. A run that polls has events all the time, so silence does not detect it.
const LoopCalls = 50

// MaxText is how long a text may be that selects runs, in characters.
const MaxText = 200

// NoOperation selects runs that failed without a call.
const NoOperation = "-"

// Failures is how many runs ended with the same code in the same operation. Runs that ended before the ledger kept that are not counted.
type Failures struct {
	Code      writ.Code
	Operation string // of the call that ended the run, "" if none did
	Runs      int
	Newest    time.Time // when the newest of the runs came
}

// NodeFilter selects nodes; an empty field selects all, but for nodes that were removed.
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

// ResourceFilter selects resources; an empty field selects all.
type ResourceFilter struct {
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
	Kind       writ.ResourceKind
	Node       writ.NodeID
	Deployment string
}

// Deployment is what owns resources of a project in a datacenter.
type Deployment struct {
	Datacenter writ.DatacenterID
	Project    writ.ProjectID
	Name       string
	Resources  int // of it that the filter selects
}

// Newest returns the newest run of the deployment, nil if the ledger has forgotten all, and the newest revision that its datacenter accepted, 0 if
// that is not known. They differ while a run waits, and after one was refused.
func (d Deployment) Newest(ctx context.Context, runs func(context.Context, RunFilter, Page) (List[Run], error)) (newest *Run, revision int, err error) {
	for _, limit := range []int{1, 20} { // nearly always the newest run is one of a revision
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

// Runs selects the runs that make the deployment.
func (d Deployment) Runs() RunFilter {
	return RunFilter{Datacenter: d.Datacenter, Projects: []writ.ProjectID{d.Project}, Deployment: d.Name}
}

// Events keeps what happened, in the one order in which it was stored. The first two methods make a ledger the sink of the link's
// events.
type Events interface {
	// LastEvent returns the sequence number of the last stored event of a journal and when it took place, 0 if there is none.
	LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (seq int64, at time.Time, err error)
	// StoreEvents stores consecutive events of one journal and the copies that they change, all or nothing; those about usage are only added up. Those that it has already
	// it passes over. A gap is a CONFLICT; only the first event ever of a journal may have any number, because a datacenter forgets
	// what another ledger acknowledged. Whatever an event says, it is stored under the datacenter that sent it and changes only
	// copies of that datacenter. A run that its datacenter has is no longer waiting. The first events of another journal than before make
	// the ledger forget nodes and resources of the datacenter: a journal that came from a backup tells of all that it knows.
	StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error
	// Events returns at most max events with ids after one, oldest first. It returns fewer if they are large. more reports that a limit
	// ended the list, so that another event may follow. An event that becomes visible has a higher id than every event that was visible before.
	Events(ctx context.Context, after int64, filter EventFilter, max int) (events []Event, more bool, err error)
	// Shares returns the bytes that the events of each datacenter occupy, including the copies that they made. It is an
	// upper estimate: a copy counts for each event that changed it, until the copy is forgotten.
	Shares(ctx context.Context) (map[writ.DatacenterID]int64, error)
	// EventRange returns the ids of the oldest and the newest event that are kept, and of the newest ever if none are.
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// Webhooks keeps how far each webhook is, by the name that an operator gave it.
type Webhooks interface {
	// WebhookAt returns where a webhook is, nil for a new one.
	WebhookAt(ctx context.Context, name string) (*WebhookPlace, error)
	// SetWebhookAt records that, also if it is earlier than what is recorded.
	SetWebhookAt(ctx context.Context, name string, at WebhookPlace) error
}

// WebhookPlace is where a webhook is in the events.
type WebhookPlace struct {
	Event int64                // id of the last event that it is done with
	Lost  map[string]time.Time // nodes that were lost at that event, "DATACENTER/NODE", with their last beat
}

// Event is an event of a datacenter, or of the ledger itself when the state of a submission changed, or a run was asked for: then Journal
// is "", Seq is 0.
type Event struct {
	ID         int64             `json:"id"` // of this ledger, growing
	Datacenter writ.DatacenterID `json:"datacenter"`
	writ.Event
	Submission *writ.Submission `json:"submission,omitempty"`
	// About is the run that this is news of, "" for none. It is not always RunID: what a datacenter says of a run of another one is no news
	// of that run.
	About writ.RunID `json:"-"`
	// Project is whose event it is, "" for none: that of the submission, of the resource, or of the run that it is news of. What a datacenter
	// says of a run of another one, or of a run that the ledger does not know, belongs to none.
	Project writ.ProjectID `json:"-"`
}

// TopicSubmission is the topic of an event about a submission.
const TopicSubmission = "submission"

// Topics lists what events are about.
var Topics = []string{TopicSubmission, "run", "call", "log", "node", "resource"}

// Topic names what the event is about.
func (e *Event) Topic() string {
	if e.Submission != nil {
		return TopicSubmission
	}
	return e.Event.Topic()
}

// RunID returns the run that the event belongs to, "" if it is about a node.
func (e *Event) RunID() writ.RunID {
	if e.Submission != nil {
		return e.Submission.Run
	}
	return e.Event.RunID()
}

// EventFilter selects events; an empty field selects all.
type EventFilter struct {
	Topics     []string
	Run        writ.RunID
	Datacenter writ.DatacenterID
	Projects   []writ.ProjectID
}

// Selects reports whether the filter selects an event that a ledger returned.
func (f EventFilter) Selects(e *Event) bool {
	return (len(f.Topics) == 0 || slices.Contains(f.Topics, e.Topic())) &&
		(f.Run == "" || f.Run == e.About) &&
		(len(f.Projects) == 0 || slices.Contains(f.Projects, e.Project)) &&
		(f.Datacenter == "" || f.Datacenter == e.Datacenter)
}

// NotThere is the error of every ledger about something that it does not have, and of a coordinator about what a reader must not know of.
func NotThere(what string, id any) error {
	return writ.Errorf(writ.CodeNotFound, "there is no %s %v", what, id)
}
