package writ

import (
	"fmt"
	"time"
)

// JobKey identifies one attempt of a call. A runner executes a key at most once, however often it is delivered.
type JobKey struct {
	Run     RunID `json:"run"`
	Seq     int   `json:"seq"`
	Attempt int   `json:"try"`
}

// String formats the key as "<run>-<seq>-<attempt>", for logs and explanations.
func (k JobKey) String() string { return fmt.Sprintf("%s-%d-%d", k.Run, k.Seq, k.Attempt) }

// Job is a signed order of a supervisor to a node. Times are unix milliseconds by the supervisor's clock.
type Job struct {
	JobKey
	Cluster    ClusterID      `json:"cluster"`
	Datacenter DatacenterID   `json:"datacenter"`
	Node       NodeID         `json:"node"` // the only node that may execute it
	Delivery   int            `json:"delivery"`
	Epoch      int64          `json:"epoch"` // of the supervisor; runners reject epochs below the highest seen
	Operation  string         `json:"operation"`
	Project    ProjectID      `json:"project"`
	Name       string         `json:"name,omitempty"` // of the resource
	UID        UID            `json:"uid,omitempty"`  // of the resource
	Args       map[string]any `json:"args,omitempty"` // handles are Refs; a secret is {"secret": "name@version"}
	// Secrets holds the secrets in Args by "name@version", each encrypted for the node (package identity/secret).
	Secrets    map[string][]byte `json:"secrets,omitempty"`
	Grant      []byte            `json:"waybill,omitempty"` // signed TransferGrant, to copy from another node
	Idempotent bool              `json:"idempotent,omitempty"`
	// Weight is the project's share of the node's time relative to other projects that compete for it. 0 counts as 1.
	Weight  int `json:"weight,omitempty"`
	Resumes int `json:"resumes,omitempty"` // how often the run was resumed so far
	// KnownFailures is the number of an earlier attempt. The supervisor knows that all attempts up to it have failed, and
	// accepts that their effects repeat. The node refuses an operation that must run once if an attempt after
	// KnownFailures may have acted.
	KnownFailures int    `json:"told,omitempty"`
	Payload       Digest `json:"payload"`  // the user's signed text
	Accepted      int64  `json:"accepted"` // when the supervisor accepted the run
	StartBy       int64  `json:"start_by"`
	EndBy         int64  `json:"end_by"`
	Deadline      int64  `json:"deadline,omitempty"` // of the run: no job is sent or started after it
}

// TransferGrant permits a node to fetch data of a resource from another node. The supervisor signs it into the job of
// the fetching node, which presents it to the other node. It is valid only between these two nodes after they have
// authenticated, only for this resource, and until it expires.
type TransferGrant struct {
	Cluster    ClusterID    `json:"cluster"`
	Datacenter DatacenterID `json:"datacenter"`
	Transfer   string       `json:"transfer"` // "<run>-<seq>", the same for every attempt and delivery of the call
	From       NodeID       `json:"from"`
	FromName   string       `json:"from_name"`
	FromKey    []byte       `json:"from_key"`          // ed25519 public key of From
	Address    string       `json:"address,omitempty"` // where From serves archives, "host:port"; "" if it serves none
	Unheard    bool         `json:"unheard,omitempty"` // From has sent no beat to this supervisor yet; no Address
	To         NodeID       `json:"to"`
	ToKey      []byte       `json:"to_key"`
	Resource   ResourceID   `json:"resource"`           // on From
	Snapshot   string       `json:"snapshot,omitempty"` // "" for the content at the time of the fetch
	UID        UID          `json:"uid"`
	Expires    int64        `json:"expires"` // unix milliseconds by the supervisor's clock
}

// Until returns the time after which no delivery of the job's call can arrive.
func (j *Job) Until() time.Time { return time.UnixMilli(max(j.EndBy, j.Deadline)) }

// TaskID returns the job's id in the queue: "<run>-<seq>-<attempt>-<delivery>".
func (j *Job) TaskID() string { return fmt.Sprintf("%s-%d", j.JobKey, j.Delivery) }

// Result is a node's signed answer to a job.
type Result struct {
	JobKey
	Job         Digest         `json:"job"` // SHA-256 of the executed job record
	Node        NodeID         `json:"node"`
	Change      Change         `json:"change,omitempty"`
	Values      map[string]any `json:"values,omitempty"` // the fields of the operation's result
	Error       *Error         `json:"error,omitempty"`  // nil if it succeeded
	Found       UID            `json:"found,omitempty"`  // UID of an existing resource that caused the failure
	Driver      string         `json:"driver,omitempty"`
	Simulated   bool           `json:"simulated,omitempty"`
	Started     int64          `json:"started"` // unix milliseconds by the node's clock
	Ended       int64          `json:"ended"`
	Boot        string         `json:"boot"`        // the kernel's boot id
	Incarnation int64          `json:"incarnation"` // numbers the starts of the runner process, increasing
}

// Beat is the status that a node signs and sends. (Boot, Incarnation, Sequence) orders the beats of a node.
type Beat struct {
	Health
	Node        NodeID      `json:"node"`
	Boot        string      `json:"boot"`
	Incarnation int64       `json:"incarnation"`
	Sequence    int64       `json:"sequence"`
	Clock       int64       `json:"clock"`           // unix milliseconds
	Every       int64       `json:"every,omitempty"` // seconds within which the next beat follows; 0 means 1
	Epoch       int64       `json:"epoch"`           // the highest epoch that the runner has seen
	Active      []JobKey    `json:"active,omitempty"`
	Progress    []Progress  `json:"progress,omitempty"` // active jobs whose drivers reported progress
	Inventories []Inventory `json:"recalls,omitempty"`  // of runs that the supervisor asked about since the last beat
}

// Inventory lists the calls of a run that a node has started or has results of. It answers Control.Asked.
type Inventory struct {
	Run   RunID `json:"run"`
	Epoch int64 `json:"epoch"` // the highest epoch that the node has seen; later, it starts no job of a lower epoch
	Calls []int `json:"calls,omitempty"`
}

// Stuck is a job whose driver ignores its deadline. Other jobs wait for the resource until the driver returns.
type Stuck struct {
	JobKey
	Operation string    `json:"operation"`
	Project   ProjectID `json:"project"`
	Name      string    `json:"name,omitempty"` // of the resource
	Since     time.Time `json:"since"`          // by the node's clock
}

// Progress is the latest progress report of a job's driver: a sentence for people.
type Progress struct {
	JobKey
	Text string `json:"text"`
}

// ReportID identifies a report of a node.
type ReportID struct {
	Incarnation int64 `json:"incarnation"`
	Round       int64 `json:"round"`
}

// Report is the result of a node's scan of its resources. The next report replaces a lost one.
type Report struct {
	Findings
	Node        NodeID          `json:"node"`
	Incarnation int64           `json:"incarnation"`
	Round       int64           `json:"round"`              // numbers the reports of an incarnation, from 1
	Epoch       int64           `json:"epoch,omitempty"`    // the highest epoch that the runner has seen
	Clock       int64           `json:"clock"`              // unix milliseconds
	Drifts      []ResourceDrift `json:"drifts,omitempty"`   // of all resources that have drifted
	States      []ResourceState `json:"states,omitempty"`   // changed since the last acknowledged report
	Mendings    []NodeMending   `json:"mendings,omitempty"` // unacknowledged repairs, oldest first
	Usage       []Usage         `json:"usage,omitempty"`    // hours that changed since the last acknowledged report
}

// ResourceDrift lists the differences between a resource and its requested state.
type ResourceDrift struct {
	ResourceID
	UID   UID      `json:"uid"`
	Lasts []string `json:"lasts,omitempty"` // the differences, as sentences
}

// ResourceState reports the state of one resource on its node.
type ResourceState struct {
	ResourceID
	UID UID `json:"uid"`
	Standing
}

// NodeMending reports that a node repaired a resource.
type NodeMending struct {
	ResourceID
	UID   UID    `json:"uid"`
	Count int64  `json:"count"` // number of repairs of this resource in the incarnation, including this one
	Time  int64  `json:"time"`  // unix milliseconds
	What  string `json:"what"`  // sentences
}

// Control is a signed message of a supervisor to a node. It carries everything except jobs.
type Control struct {
	Node  NodeID   `json:"node"`
	Epoch int64    `json:"epoch"`
	Acks  []JobKey `json:"acks,omitempty"` // results that the supervisor's journal holds
	// Cancels stops the jobs of these runs. Each value is a time in unix milliseconds: until then, the node rejects
	// further jobs of the run.
	Cancels map[RunID]int64 `json:"cancels,omitempty"`
	// Resumes counts the resumes of a cancelled run before its cancel. Jobs after a later resume are not cancelled.
	Resumes map[RunID]int `json:"resumes,omitempty"`
	// GivenUp stops jobs whose results are no longer needed although their runs continue.
	GivenUp []JobKey `json:"given_up,omitempty"`
	Roster  int      `json:"roster,omitempty"` // version to fetch if the node's roster is older
	// Asked lists runs whose Inventories the next beat must contain. The supervisor asks after its journal was restored
	// from a backup.
	Asked []RunID `json:"asked,omitempty"`
	// Acknowledged names a report, and acknowledges its usage, repairs and states.
	Acknowledged *ReportID `json:"told,omitempty"`
	Log          []byte    `json:"log,omitempty"` // a nodes.LogQuery, alone in a message, because older runners reject it
}
