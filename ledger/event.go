package ledger

import (
	"context"
	"slices"
	"time"

	"writ"
)

// Events stores events in one global order. A datacenter numbers its events in a journal, the database of its
// supervisor. The first two methods make a ledger a sink for the events that supervisors send; see package
// supervisor/link.
type Events interface {
	// LastEvent returns the sequence number and the time of the last stored event of a journal. seq is 0 for an unknown
	// journal.
	LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (seq int64, at time.Time, err error)
	// LastEvents returns the time of the last stored event of each datacenter, by the clock of the datacenter. A
	// datacenter without events has no entry.
	LastEvents(ctx context.Context) (map[writ.DatacenterID]time.Time, error)
	// StoreEvents stores consecutive events of one journal and updates the copies of runs, calls, nodes and resources,
	// in one transaction. Usage events only add to the stored sums. Events that are already stored are skipped. A gap
	// is a CONFLICT. Only the first event of a journal may have any number, because a datacenter deletes events that
	// another ledger acknowledged.
	//
	// An event is stored under the datacenter that sent it and changes only copies of that datacenter, regardless of
	// its content. An event of a run marks its waiting submission as delivered. The first events of a new journal
	// delete the datacenter's nodes and resources: a journal restored from a backup reports all of them again.
	StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error
	// Events returns at most max events with ids greater than `after`, oldest first, or fewer if they are large. more
	// reports that a limit ended the list, so more events may follow. A newly visible event has a higher id than all
	// events that were visible before.
	Events(ctx context.Context, after int64, filter EventFilter, max int) (events []Event, more bool, err error)
	// EncodedEvents is Events without the cost of decoding, for readers that forward the JSON.
	EncodedEvents(ctx context.Context, after int64, filter EventFilter, max int) (events []EncodedEvent, more bool, err error)
	// Shares returns the bytes used by the events of each datacenter, including the copies that they made. It is an
	// upper estimate: a copy counts for each event that changed it, until the copy is deleted.
	Shares(ctx context.Context) (map[writ.DatacenterID]int64, error)
	// EventRange returns the ids of the oldest and the newest stored event. Without stored events, newest is the id of
	// the last event ever stored. A later read of Events finds all events up to newest.
	EventRange(ctx context.Context) (oldest, newest int64, err error)
}

// Event is an event of a datacenter, or of the ledger itself: a submission changed its state, or Restate changed a run.
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

// EncodedEvent is an Event as JSON, with the fields that an EventFilter compares.
type EncodedEvent struct {
	ID         int64
	Datacenter writ.DatacenterID
	Topic      string
	About      writ.RunID
	Project    writ.ProjectID
	JSON       string // one line, as json.Marshal writes the Event
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
	return f.SelectsEncoded(&EncodedEvent{Datacenter: e.Datacenter, Topic: e.Topic(), About: e.About, Project: e.Project})
}

// SelectsEncoded is Selects for an encoded event. It ignores the JSON.
func (f EventFilter) SelectsEncoded(e *EncodedEvent) bool {
	return (f.Run == "" || f.Run == e.About) &&
		(len(f.Topics) == 0 || slices.Contains(f.Topics, e.Topic)) &&
		(len(f.Projects) == 0 || slices.Contains(f.Projects, e.Project)) &&
		(f.Datacenter == "" || f.Datacenter == e.Datacenter)
}

// Webhooks stores the progress of each webhook, by the name that an operator gave it.
type Webhooks interface {
	// WebhookAt returns the progress of a webhook, or nil for a new webhook.
	WebhookAt(ctx context.Context, name string) (*WebhookPlace, error)
	// SetWebhookAt stores the progress of a webhook, even if it is earlier than the stored progress.
	SetWebhookAt(ctx context.Context, name string, at WebhookPlace) error
}

// WebhookPlace is the progress of a webhook through the events.
type WebhookPlace struct {
	Event int64 // id of the last event that was delivered or skipped
	// Lost holds the nodes that were lost at that event, "DATACENTER/NODE", with the time of their last beat.
	Lost map[string]time.Time
}
