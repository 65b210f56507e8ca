package writ

import "time"

// Submission is a signed script as its coordinator records it. Its bytes are stored separately.
type Submission struct {
	Payload    Digest          `json:"payload"` // SHA-256 of the text without its malleable signature
	Run        RunID           `json:"run"`
	Datacenter DatacenterID    `json:"datacenter"`
	Project    ProjectID       `json:"project"`
	Signer     string          `json:"signer"`
	Script     string          `json:"script"` // file name
	State      SubmissionState `json:"state"`
	Error      *Error          `json:"error,omitempty"` // why it was refused or expired
	Received   time.Time       `json:"received"`
	Expires    time.Time       `json:"expires"`
}

// Run is the execution of a submission in its datacenter.
type Run struct {
	ID          RunID          `json:"id"`
	Datacenter  DatacenterID   `json:"datacenter"`
	Project     ProjectID      `json:"project"`
	ProjectName string         `json:"project_name"`
	Deployment  string         `json:"deployment,omitempty"`
	Revision    int            `json:"revision,omitempty"` // of the deployment, made by this run; 0 until accepted
	Signer      string         `json:"signer"`
	Script      string         `json:"script"`
	Payload     Digest         `json:"payload"`
	Plan        Digest         `json:"plan,omitzero"`       // the plan that the run is bound to, zero if none
	LogsOnly    bool           `json:"logs_only,omitempty"` // its header allows only reads of logs and consoles
	State       RunState       `json:"state"`
	Why         Reason         `json:"why,omitzero"`     // why the run waits
	Reason      string         `json:"reason,omitempty"` // Why as a sentence; only in the coordinator's records
	Failure     *Failure       `json:"failure,omitempty"`
	Decided     []Decision     `json:"decided,omitempty"` // the latest decisions to cancel or resume, oldest first
	Output      map[string]any `json:"output,omitempty"`  // only in the datacenter's record; see Summary
	Summary     []byte         `json:"summary,omitempty"` // the signed Summary of a run that has ended
	Accepted    time.Time      `json:"accepted"`
	Started     time.Time      `json:"started,omitzero"`
	Ended       time.Time      `json:"ended,omitzero"`
	Deadline    time.Time      `json:"deadline"`
}

// Failure is the reason and the place of a run's failure.
type Failure struct {
	Error
	Position string   `json:"position,omitempty"` // "web.tengo:14:11"; of the call Seq, if a call ended the run
	Trace    []string `json:"trace,omitempty"`    // where the script read Seq's result, then the callers, innermost first
	Seq      int      `json:"seq,omitempty"`      // the call that ended the run, 0 if none
	Handled  bool     `json:"handled,omitempty"`  // the script read the error, so a resume fails again; not in summaries
}

// Summary is the supervisor's signed statement of how a run ended. Clients accept no other proof.
type Summary struct {
	Run        RunID          `json:"run"`
	Datacenter DatacenterID   `json:"datacenter"`
	Payload    Digest         `json:"payload"`
	State      RunState       `json:"state"`
	Failure    *Failure       `json:"failure,omitempty"`
	Output     map[string]any `json:"output,omitempty"`
	Calls      int            `json:"calls"`
	Results    Digest         `json:"results"` // SHA-256 over the digests of the results, by seq and attempt
	Ended      int64          `json:"ended"`   // unix milliseconds
}

// Call is an operation that a run requested, without its arguments. Seq is its position among the run's calls.
type Call struct {
	Run       RunID        `json:"run"`
	Seq       int          `json:"seq"` // from 1
	Operation string       `json:"operation"`
	Kind      ResourceKind `json:"kind,omitempty"`
	Name      string       `json:"name,omitempty"`
	Position  string       `json:"position,omitempty"` // of the call in the script
	State     CallState    `json:"state"`
	Node      NodeID       `json:"node,omitempty"`
	NodeName  string       `json:"node_name,omitempty"`
	Driver    string       `json:"driver,omitempty"`
	Simulated bool         `json:"simulated,omitempty"`
	Change    Change       `json:"change,omitempty"`
	Attempt   int          `json:"try"`             // from 1
	Delivery  int          `json:"delivery"`        // of this attempt: 0 before it is sent, then from 1
	After     []int        `json:"after,omitempty"` // the calls that it depends on
	Error     *Error       `json:"error,omitempty"`
	Why       Reason       `json:"why,omitzero"`     // why the call waits, or its progress on the node
	Reason    string       `json:"reason,omitempty"` // Why as a sentence; only in the coordinator's records
	Planned   time.Time    `json:"planned"`
	Queued    time.Time    `json:"queued,omitzero"`
	Started   time.Time    `json:"started,omitzero"` // by the node's clock
	Ended     time.Time    `json:"ended,omitzero"`
	EndBy     time.Time    `json:"end_by,omitzero"` // the latest end of a sent attempt, by its timeout
}

// CallOptions is the third argument of an operation in a script.
type CallOptions struct {
	Retries    *int              `json:"retries,omitempty"`    // after the first attempt; nil means 5
	Timeout    int64             `json:"timeout,omitempty"`    // milliseconds; 0 means the operation's default
	OnLoss     string            `json:"on_loss,omitempty"`    // "fail" (the default), "wait" or "replace"
	Node       string            `json:"node,omitempty"`       // name or id of the only acceptable node
	Labels     map[string]string `json:"labels,omitempty"`     // required labels of the node
	Idempotent bool              `json:"idempotent,omitempty"` // the operation may safely be repeated
	Adopt      bool              `json:"adopt,omitempty"`      // take ownership of the resource
}

// LogLine is a line that a script logged with run.log.
type LogLine struct {
	Run     RunID     `json:"run"`
	Ordinal int       `json:"ordinal"` // from 1, the same in every evaluation of the script
	Text    string    `json:"text"`
	Time    time.Time `json:"time"` // when the script first logged it
}

// Event is a change in a datacenter, with the full new state of its subject. A journal numbers its events from 1.
type Event struct {
	Journal  string    `json:"journal"` // a journal restored from a backup gets a new id
	Seq      int64     `json:"seq"`
	Time     time.Time `json:"time"`
	Run      *Run      `json:"run,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Log      *LogLine  `json:"log,omitempty"`
	Node     *Node     `json:"node,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
	Usage    *Usage    `json:"usage,omitempty"`
}

// EncodedEvent is an event as JSON without the journal id, which all events of a batch share.
type EncodedEvent struct {
	Seq  int64
	JSON []byte
}

// Topic returns the topic of the event: run, call, log, node, resource or usage.
func (e *Event) Topic() string {
	switch {
	case e.Run != nil:
		return "run"
	case e.Call != nil:
		return "call"
	case e.Log != nil:
		return "log"
	case e.Node != nil:
		return "node"
	case e.Usage != nil:
		return "usage"
	default:
		return "resource"
	}
}

// RunID returns the run that the event belongs to. It is "" for events about nodes and usage.
func (e *Event) RunID() RunID {
	switch {
	case e.Run != nil:
		return e.Run.ID
	case e.Call != nil:
		return e.Call.Run
	case e.Log != nil:
		return e.Log.Run
	case e.Resource != nil:
		return e.Resource.Run
	default:
		return ""
	}
}
