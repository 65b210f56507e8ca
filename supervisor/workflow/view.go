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

// View holds the dependencies of a step, except its run and the journal. All fields are required.
type View struct {
	Site
	Nodes       Nodes
	Presence    Presence
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
	// Away returns a node and the reason why it can receive no jobs now; the reason is zero if the node can receive jobs.
	Away(id writ.NodeID) (writ.Node, writ.Reason)
	// Record returns a node with its keys, nil if it is unknown.
	Record(id writ.NodeID) *journal.Node
	// Name returns the name of a node, or the ID of an unknown node.
	Name(id writ.NodeID) string
	// Shared returns all nodes, sorted by name. The returned nodes are never changed.
	Shared() []*writ.Node
}

// Presence reports facts from the last beats of nodes.
type Presence interface {
	// Works reports whether a node works on the job, whether the node is ready, and how many beats it has sent to this
	// supervisor.
	Works(id writ.NodeID, job writ.JobKey) (active, ready bool, beats int)
	// Busy reports whether all slots of a node are used.
	Busy(id writ.NodeID) bool
}

// Backlog remembers which nodes have calls that wait for room, and which project each node served last. It saves reads
// of the journal and may be stale; package watch corrects it.
type Backlog interface {
	HasBacklog(id writ.NodeID) bool
	SetBacklog(id writ.NodeID, backlog bool)
	Serve(id writ.NodeID, project writ.ProjectID)
}

// Holds are the signed decisions that certain work must not start.
type Holds interface {
	// Over returns a hold that covers work, nil if none does.
	Over(work identity.Scope) *identity.Hold
	// AboutDeployments reports whether there are decisions about deployments of a project.
	AboutDeployments(project writ.ProjectID) bool
	// Reason returns the reason of runs and calls under a hold.
	Reason(h *identity.Hold) writ.Reason
}

// Shares divides the room of nodes between projects.
type Shares interface {
	// Lines returns the projects that compete for room on a node. The line of `own` is always included.
	Lines(tx *journal.Tx, node writ.NodeID, now time.Time, room int, own writ.ProjectID) ([]placement.Line, error)
	// Weight returns the weight of a project.
	Weight(project writ.ProjectID) int
}

// Secrets re-encrypts stored secrets to nodes.
type Secrets interface {
	Encrypted(secret *journal.Secret, node *journal.Node) ([]byte, error)
}

// Inventories collects the reports of nodes about the runs of a journal that was restored from a backup.
type Inventories interface {
	// RestoredUntil returns the end of the restored period: the journal may be incomplete for runs that began before
	// it.
	RestoredUntil() time.Time
	// Missing returns the reason why a run waits for reports of nodes, zero if all nodes have reported. It requests the
	// missing reports.
	Missing(run writ.RunID) writ.Reason
	// Having returns the nodes that reported a call.
	Having(run writ.RunID, seq int) []writ.NodeID
}
