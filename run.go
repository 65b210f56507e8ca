package writ

import "time"

// Submission is a signed script as its coordinator knows it. Its bytes are kept beside it.
type Submission struct {
	Payload    Digest          `json:"payload"` // SHA-256 of the signed text; never of the signature, which is malleable
	Run        RunID           `json:"run"`
	Datacenter DatacenterID    `json:"datacenter"`
	Project    ProjectID       `json:"project"`
	Signer     string          `json:"signer"`
	Script     string          `json:"script"` // the script's file name
	State      SubmissionState `json:"state"`
	Error      *Error          `json:"error,omitempty"` // why it was refused or expired
	Received   time.Time       `json:"received"`
	Expires    time.Time       `json:"expires"`
}

// Run is one submission being carried out in its datacenter.
type Run struct {
	ID          RunID          `json:"id"`
	Datacenter  DatacenterID   `json:"datacenter"`
	Project     ProjectID      `json:"project"`
	ProjectName string         `json:"project_name"`
	Deployment  string         `json:"deployment,omitempty"`
	Revision    int            `json:"revision,omitempty"` // of the deployment, that the run makes; 0 until the datacenter accepted it
	Signer      string         `json:"signer"`
	Script      string         `json:"script"`
	Payload     Digest         `json:"payload"`
	Plan        Digest         `json:"plan,omitzero"` // that it was signed with and is held to, zero if none
	State       RunState       `json:"state"`
	Reason      string         `json:"reason,omitempty"` // why it waits, in a sentence
	Failure     *Failure       `json:"failure,omitempty"`
	Decided     []Decision     `json:"decided,omitempty"` // the last decisions about it, oldest first: who cancelled or resumed it, and why
	Output      map[string]any `json:"output,omitempty"`  // only the datacenter has it; see Summary
	Summary     []byte         `json:"summary,omitempty"` // the signed Summary, once the run has ended
	Accepted    time.Time      `json:"accepted"`
	Started     time.Time      `json:"started,omitzero"`
	Ended       time.Time      `json:"ended,omitzero"`
	Deadline    time.Time      `json:"deadline"`
}

// Failure says why and where a run failed.
type Failure struct {
	Error
	Position string   `json:"position,omitempty"` // "web.tengo:14:11"
	Trace    []string `json:"trace,omitempty"`    // positions of the callers, innermost first
	Seq      int      `json:"seq,omitempty"`      // the call that ended the run, 0 if none did
	Handled  bool     `json:"handled,omitempty"`  // the script had read the error of that call, so a resume ends the same way; not in summaries
}

// Summary is the supervisor's signed word on how a run ended. A client believes this and nothing else.
type Summary struct {
	Run        RunID          `json:"run"`
	Datacenter DatacenterID   `json:"datacenter"`
	Payload    Digest         `json:"payload"`
	State      RunState       `json:"state"`
	Failure    *Failure       `json:"failure,omitempty"`
	Output     map[string]any `json:"output,omitempty"`
	Calls      int            `json:"calls"`
	Results    Digest         `json:"results"` // SHA-256 over the digests of the signed results that there were at its end, in order of seq and attempt
	Ended      int64          `json:"ended"`   // unix milliseconds
}

// Call is the n-th operation that a run asked for, without its arguments.
type Call struct {
	Run       RunID        `json:"run"`
	Seq       int          `json:"seq"` // from 1
	Operation string       `json:"operation"`
	Kind      ResourceKind `json:"kind,omitempty"`
	Name      string       `json:"name,omitempty"`
	Position  string       `json:"position,omitempty"` // where the script makes it
	State     CallState    `json:"state"`
	Node      NodeID       `json:"node,omitempty"`
	NodeName  string       `json:"node_name,omitempty"`
	Driver    string       `json:"driver,omitempty"`
	Simulated bool         `json:"simulated,omitempty"`
	Change    Change       `json:"change,omitempty"`
	Attempt   int          `json:"try"`             // from 1
	Delivery  int          `json:"delivery"`        // of this attempt, from 1 once it was sent
	After     []int        `json:"after,omitempty"` // the calls that it needs
	Error     *Error       `json:"error,omitempty"`
	Reason    string       `json:"reason,omitempty"` // why it waits, or how far its node is with it, in a sentence
	Planned   time.Time    `json:"planned"`
	Queued    time.Time    `json:"queued,omitzero"`
	Started   time.Time    `json:"started,omitzero"` // by the node's clock
	Ended     time.Time    `json:"ended,omitzero"`
}

// CallOptions is the third argument of an operation in a script.
type CallOptions struct {
	Retries    *int              `json:"retries,omitempty"`    // attempts after the first, for retryable failures; 5 if not given
	Timeout    int64             `json:"timeout,omitempty"`    // milliseconds; the operation's own if 0
	OnLoss     string            `json:"on_loss,omitempty"`    // "fail" (also if empty), "wait" or "replace"
	Node       string            `json:"node,omitempty"`       // name or id of the only node that will do
	Labels     map[string]string `json:"labels,omitempty"`     // labels that the node must have
	Idempotent bool              `json:"idempotent,omitempty"` // repeating is harmless
	Adopt      bool              `json:"adopt,omitempty"`      // take the resource over from its owner
}

// LogLine is a line that a script wrote with run.log.
type LogLine struct {
	Run     RunID     `json:"run"`
	Ordinal int       `json:"ordinal"` // from 1, the same in every pass
	Text    string    `json:"text"`
	Time    time.Time `json:"time"` // of the first pass that wrote it
}

// Event is one change in a datacenter. Each carries the whole of what changed as it is now, so that a copy is made by keeping
// the last one. Events of one journal have consecutive sequence numbers, from 1.
type Event struct {
	Journal  string    `json:"journal"` // minted anew when a journal is restored from a backup
	Seq      int64     `json:"seq"`
	Time     time.Time `json:"time"`
	Run      *Run      `json:"run,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	Log      *LogLine  `json:"log,omitempty"`
	Node     *Node     `json:"node,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
	Usage    *Usage    `json:"usage,omitempty"`
}

// EncodedEvent is an event as JSON, without its journal: many travel together, and are of the same one.
type EncodedEvent struct {
	Seq  int64
	JSON []byte
}

// Topic names what the event is about: run, call, log, node, resource or usage.
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

// RunID returns the run that the event belongs to, "" if it is about a node.
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
