package workflow

import (
	"crypto/ed25519"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
)

// Site identifies the supervisor that takes a step.
type Site struct {
	Datacenter writ.DatacenterID
	Cluster    writ.ClusterID
	Key        ed25519.PrivateKey
	Epoch      int64
	// Backoff returns the pause after the failure of an attempt; attempts count from 1.
	Backoff func(attempt int) time.Duration
}

// View is all that a step knows besides its run and the journal. All fields are required.
type View struct {
	Site
	Nodes       Nodes
	Backlog     Backlog
	Holds       Holds
	Shares      Shares
	Secrets     Secrets
	Inventories Inventories
}

// Nodes reports the present state of nodes.
type Nodes interface {
	// Get returns a node. An unknown node counts as lost.
	Get(id writ.NodeID) (writ.Node, bool)
	// Away returns a node and the reason why it can receive no jobs now; the reason is zero if it can.
	Away(id writ.NodeID) (writ.Node, writ.Reason)
	// Record returns a node with its keys, nil if it is unknown.
	Record(id writ.NodeID) *journal.Node
	// Name returns the name of a node, its ID if it is unknown.
	Name(id writ.NodeID) string
	// List returns all nodes by name.
	List() []writ.Node
	// Works reports what a node said last: whether it works on a job, whether it is ready, and the number of its beats.
	Works(id writ.NodeID, job writ.JobKey) (active, ready bool, beats int)
	// Busy reports whether all slots of a node are used.
	Busy(id writ.NodeID) bool
}

// Backlog remembers which nodes have calls that wait for room, and whose call was sent there last. It saves reads of the
// journal; the watch corrects it.
type Backlog interface {
	HasBacklog(id writ.NodeID) bool
	SetBacklog(id writ.NodeID, backlog bool)
	Serve(id writ.NodeID, project writ.ProjectID)
}

// Holds are the decisions about work that must not start.
type Holds interface {
	// Over returns a hold that covers work, nil if there is none.
	Over(work identity.Scope) *identity.Hold
	// AboutDeployments reports whether there are decisions about deployments of a project.
	AboutDeployments(project writ.ProjectID) bool
	// Reason returns the reason of runs and calls under a hold.
	Reason(h *identity.Hold) writ.Reason
}

// Shares divides the room of nodes between projects.
type Shares interface {
	// Lines returns the lines that compete for room on a node. The line of own is among them.
	Lines(tx *journal.Tx, node writ.NodeID, now time.Time, room int, own writ.ProjectID) ([]placement.Line, error)
	// Weight returns the weight of a project.
	Weight(project writ.ProjectID) int
}

// Secrets encrypts secrets to nodes.
type Secrets interface {
	Encrypted(secret *journal.Secret, node *journal.Node) ([]byte, error)
}

// Inventories is what nodes report about the runs of a journal that was restored from a backup.
type Inventories interface {
	// RestoredUntil returns the time until which runs began that the journal may know incompletely.
	RestoredUntil() time.Time
	// Missing returns the reason why a run waits for reports of nodes. It is zero if all nodes have reported. It asks the
	// other nodes for a report.
	Missing(run writ.RunID) writ.Reason
	// Having returns the nodes that reported a call.
	Having(run writ.RunID, seq int) []writ.NodeID
}
