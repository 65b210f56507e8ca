package writ

import (
	"fmt"
	"time"
)

// JobKey is a permission to act once: the runner does the work of a key at most once, however often it is delivered.
type JobKey struct {
	Run     RunID `json:"run"`
	Seq     int   `json:"seq"`
	Attempt int   `json:"try"`
}

// String is the form in logs and explanations: "<run>-<seq>-<attempt>".
func (k JobKey) String() string { return fmt.Sprintf("%s-%d-%d", k.Run, k.Seq, k.Attempt) }

// Job is what a supervisor asks a node to do. It travels signed. Times are unix milliseconds by the supervisor's clock.
type Job struct {
	JobKey
	Cluster    ClusterID      `json:"cluster"`
	Datacenter DatacenterID   `json:"datacenter"`
	Node       NodeID         `json:"node"` // exactly one
	Delivery   int            `json:"delivery"`
	Epoch      int64          `json:"epoch"` // of the supervisor; a runner refuses one lower than it has seen
	Operation  string         `json:"operation"`
	Project    ProjectID      `json:"project"`
	Name       string         `json:"name,omitempty"` // of the resource
	UID        UID            `json:"uid,omitempty"`  // of the resource
	Args       map[string]any `json:"args,omitempty"` // handles are Refs by now; a secret is {"secret": "name@version"}
	// Secrets are the values of the secrets among Args by "name@version", each encrypted to the node (package identity/secret).
	Secrets    map[string][]byte `json:"secrets,omitempty"`
	Grant      []byte            `json:"waybill,omitempty"` // a signed TransferGrant, if the operation copies from another node
	Idempotent bool              `json:"idempotent,omitempty"`
	// Weight says how much of the node's time the project gets, compared with others while several want some; 1 if it is 0.
	Weight  int `json:"weight,omitempty"`
	Resumes int `json:"resumes,omitempty"` // of the run so far
	// KnownFailures is the attempt up to which it was known how each one failed when this one was decided. What those may have done may be done again;
	// a later one, of which nothing was known, stands in the way of a job that must not be repeated.
	KnownFailures int    `json:"told,omitempty"`
	Payload       Digest `json:"payload"`  // of the user's signed text
	Accepted      int64  `json:"accepted"` // when the supervisor accepted the run
	StartBy       int64  `json:"start_by"`
	EndBy         int64  `json:"end_by"`
	Deadline      int64  `json:"deadline,omitempty"` // of the run: none of its jobs is sent or begun after it
}

// TransferGrant lets one node fetch what a resource of another one holds. The supervisor signs it into the job of the node that fetches, which
// shows it to the other. It counts once both are who they say they are, for that resource alone and until it expires.
type TransferGrant struct {
	Cluster    ClusterID    `json:"cluster"`
	Datacenter DatacenterID `json:"datacenter"`
	Transfer   string       `json:"transfer"` // "<run>-<seq>", the same for every attempt and delivery of the call
	From       NodeID       `json:"from"`
	FromName   string       `json:"from_name"`
	FromKey    []byte       `json:"from_key"`          // its ed25519 key
	Address    string       `json:"address,omitempty"` // where it gives archives away, "host:port"; "" if it does not
	Unheard    bool         `json:"unheard,omitempty"` // the supervisor has not heard of From since it started, and does not know the address
	To         NodeID       `json:"to"`
	ToKey      []byte       `json:"to_key"`
	Resource   ResourceID   `json:"resource"`           // that From has
	Snapshot   string       `json:"snapshot,omitempty"` // of it, "" for what it holds when it is fetched
	UID        UID          `json:"uid"`
	Expires    int64        `json:"expires"` // unix milliseconds by the supervisor's clock
}

// Until is when no delivery of the job's call can come any more.
func (j *Job) Until() time.Time { return time.UnixMilli(max(j.EndBy, j.Deadline)) }

// TaskID is the job's id in the queue: "<run>-<seq>-<attempt>-<delivery>".
func (j *Job) TaskID() string { return fmt.Sprintf("%s-%d", j.JobKey, j.Delivery) }

// Result is a node's signed answer to a job.
type Result struct {
	JobKey
	Job         Digest         `json:"job"` // SHA-256 of the job record that was carried out
	Node        NodeID         `json:"node"`
	Change      Change         `json:"change,omitempty"`
	Values      map[string]any `json:"values,omitempty"` // the fields of the operation's result
	Error       *Error         `json:"error,omitempty"`  // nil if it succeeded
	Found       UID            `json:"found,omitempty"`  // of what stands in the way under the resource's name, if that is why it failed
	Driver      string         `json:"driver,omitempty"`
	Simulated   bool           `json:"simulated,omitempty"`
	Started     int64          `json:"started"` // unix milliseconds by the node's clock
	Ended       int64          `json:"ended"`
	Boot        string         `json:"boot"`        // the kernel's boot id
	Incarnation int64          `json:"incarnation"` // numbers the starts of the runner's process, rising
}

// Beat is what a node says of itself every second, signed. (Boot, Incarnation, Sequence) orders the beats of a node.
type Beat struct {
	Node        NodeID       `json:"node"`
	Boot        string       `json:"boot"`
	Incarnation int64        `json:"incarnation"`
	Sequence    int64        `json:"sequence"`
	Clock       int64        `json:"clock"` // unix milliseconds
	Epoch       int64        `json:"epoch"` // the highest that the runner has seen
	Active      []JobKey     `json:"active,omitempty"`
	Stuck       []Stuck      `json:"wedged,omitempty"`   // those among them whose time is over
	Progress    []Progress   `json:"progress,omitempty"` // of those among them whose drivers said something
	Slots       int          `json:"slots"`
	Capacity    Capacity     `json:"capacity"`
	Drivers     []NodeDriver `json:"drivers"`
	Version     string       `json:"version"`
	Transfers   string       `json:"transfers,omitempty"` // where it gives archives to other nodes, "host:port"; "" if it does not
	Fault       string       `json:"fault,omitempty"`     // why the node refuses work at the moment, "" if it does not
	Inventories []Inventory  `json:"recalls,omitempty"`   // of runs that the supervisor asked for since the last beat
}

// Inventory is what a node has of a run that its supervisor asked for: every call that it has begun, or has the result of.
type Inventory struct {
	Run   RunID `json:"run"`
	Epoch int64 `json:"epoch"` // that the node knew when it looked: it begins nothing of an earlier one after that
	Calls []int `json:"calls,omitempty"`
}

// Stuck is a job whose driver ignores that its time is over. Until the driver is done, other jobs wait for the resource.
type Stuck struct {
	JobKey
	Operation string    `json:"operation"`
	Project   ProjectID `json:"project"`
	Name      string    `json:"name,omitempty"` // of the resource
	Since     time.Time `json:"since"`          // by the node's clock
}

// Progress is what a driver said last of a job that it works on, a sentence for people.
type Progress struct {
	JobKey
	Text string `json:"text"`
}

// ReportID names a report.
type ReportID struct {
	Incarnation int64 `json:"incarnation"`
	Round       int64 `json:"round"`
}

// Report is what a node found when it looked after its resources. One that is lost is made up for by the next.
type Report struct {
	Node        NodeID          `json:"node"`
	Incarnation int64           `json:"incarnation"`
	Round       int64           `json:"round"`              // counts the reports of an incarnation, from 1
	Epoch       int64           `json:"epoch,omitempty"`    // the highest that the runner has seen
	Clock       int64           `json:"clock"`              // unix milliseconds
	Drifts      []ResourceDrift `json:"drifts,omitempty"`   // of all resources that have any
	States      []ResourceState `json:"states,omitempty"`   // those that changed since they were told and acknowledged
	Mendings    []NodeMending   `json:"mendings,omitempty"` // those that were not acknowledged, oldest first
	Mended      int64           `json:"mended,omitempty"`   // how often the node has mended anything in this incarnation
	Orphans     []Orphan        `json:"orphans,omitempty"`  // all that there are
	Network     *NodeNetwork    `json:"network,omitempty"`  // nil if the node makes no networks
	Disks       []Disk          `json:"disks,omitempty"`    // each file system that holds data of the node, once
	Usage       []Usage         `json:"usage,omitempty"`    // hours that changed since they were told and acknowledged
}

// ResourceDrift is how a resource differs from what was asked for.
type ResourceDrift struct {
	ResourceID
	UID   UID      `json:"uid"`
	Lasts []string `json:"lasts,omitempty"` // in sentences
}

// ResourceState reports the standing of one resource.
type ResourceState struct {
	ResourceID
	UID UID `json:"uid"`
	Standing
}

// NodeMending is that a node has mended a resource.
type NodeMending struct {
	ResourceID
	UID   UID    `json:"uid"`
	Count int64  `json:"count"` // how often it has mended this resource in its incarnation, with this time
	Time  int64  `json:"time"`  // unix milliseconds
	What  string `json:"what"`  // in sentences
}

// Control is a signed message of a supervisor to a node besides jobs.
type Control struct {
	Node  NodeID   `json:"node"`
	Epoch int64    `json:"epoch"`
	Acks  []JobKey `json:"acks,omitempty"` // results that are in the supervisor's journal
	// Cancels end running jobs of these runs and refuse later ones; the value is when the node may forget it, unix milliseconds.
	Cancels map[RunID]int64 `json:"cancels,omitempty"`
	// Resumes tells how often cancelled runs were resumed before, if they were: jobs after a later resume are not cancelled.
	Resumes map[RunID]int `json:"resumes,omitempty"`
	// GivenUp ends running jobs that nobody waits for any more, though their runs go on.
	GivenUp []JobKey `json:"given_up,omitempty"`
	Roster  int      `json:"roster,omitempty"` // the version that the node should fetch if it has a lower one
	// Asked are runs of which the next beat is to say what the node has: the supervisor's journal came from a backup.
	Asked []RunID `json:"asked,omitempty"`
	// Acknowledged acknowledges the usage, the mendings and the states in a report: its incarnation and round.
	Acknowledged *ReportID `json:"told,omitempty"`
	Log          []byte    `json:"log,omitempty"` // a nodes.LogQuery, alone in its message: runners of earlier versions cannot open that
}
