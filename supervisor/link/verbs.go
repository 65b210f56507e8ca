package link

import (
	"time"

	"writ"
)

// The messages of the verbs. A coordinator sends all but the last; a supervisor sends roster as well, to ask for versions it lacks.
type (
	// Submit hands in a submission: signed text and signature. The answer is a writ.Run; the same submission again gets the same.
	Submit struct {
		Signed []byte `json:"signed"`
	}
	// Statement hands in a signed statement. The answer is a StatementAnswer.
	Statement struct {
		Signed []byte `json:"signed"`
	}
	// StatementAnswer says what a statement did.
	StatementAnswer struct {
		Subject string `json:"subject"`         // as in the statement
		Done    string `json:"done"`            // a sentence: "node n1 is cordoned"
		Proof   []byte `json:"proof,omitempty"` // the signed writ.Answer
		Begun   bool   `json:"begun,omitempty"` // in a journal only: not all of it is known to be done
	}
	// Rosters carries signed rosters, oldest first. A receiver passes over those that it has. The answer is a RosterVersion.
	Rosters struct {
		Signed [][]byte `json:"signed"`
	}
	// RosterVersion asks a coordinator for the rosters after a version (the answer is Rosters), or answers Rosters with the newest.
	RosterVersion struct {
		Version int `json:"version"`
	}
	// Adopted asks which roster is in force. The answer is an AdoptedAnswer.
	Adopted struct {
		Nonce []byte `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// AdoptedAnswer says which, as a signed writ.Adoption.
	AdoptedAnswer struct {
		Proof []byte `json:"proof"`
	}
	// Standing asks how a run stands. The answer is a StandingAnswer.
	Standing struct {
		Run   writ.RunID `json:"run"`
		Nonce []byte     `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfNode asks how a node stands. The answer is a StandingAnswer.
	StandingOfNode struct {
		Node  writ.NodeID `json:"node"`
		Nonce []byte      `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfTokens asks which join tokens there are. The answer is a StandingAnswer.
	StandingOfTokens struct {
		Nonce []byte `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfHolds asks what may not start work, of these projects and of what belongs to no project. The answer is a StandingAnswer.
	StandingOfHolds struct {
		Projects []writ.ProjectID `json:"projects,omitempty"` // "*" is all
		Nonce    []byte           `json:"nonce"`              // of the client, writ.ClientNonce bytes
	}
	// StandingAnswer says how, as a signed RunStanding, NodeStanding, TokenStanding or HoldStanding.
	StandingAnswer struct {
		Proof []byte `json:"proof"`
	}
	// Tokens asks which join tokens a datacenter has. The answer is []writ.JoinToken.
	Tokens struct{}
	// Batches asks which batches of nodes were approved in a datacenter. The answer is []Batch.
	Batches struct{}
	// Batch is a batch of nodes that a person has approved beforehand, by the serial numbers of their machines. Which numbers are still open is not
	// said: who knows one can report it.
	Batch struct {
		ID         string            `json:"id"`
		Datacenter writ.DatacenterID `json:"datacenter"`
		CreatedBy  string            `json:"created_by"`
		Reason     string            `json:"reason,omitempty"`
		Until      time.Time         `json:"until"`
		Revoked    time.Time         `json:"revoked,omitzero"`
		Void       string            `json:"void,omitempty"` // why it admits no node before its time is over, "" if it does
		Serials    int               `json:"serials"`        // how many numbers it lists
		Max        int               `json:"max"`            // nodes that it admits
		Admitted   []BatchNode       `json:"admitted"`
		// Contested are nodes that wait and report a number which another node has.
		Contested []BatchNode `json:"contested,omitempty"`
	}
	// BatchNode is a node that reported a serial number of a batch.
	BatchNode struct {
		Serial    string         `json:"serial"`
		Name      string         `json:"name"`
		Key       string         `json:"key"` // fingerprint, "SHA256:…"
		Admission writ.Admission `json:"admission"`
		Holder    string         `json:"holder,omitempty"` // of one that is contested: the name of the node that has the number
	}
	// Holds asks what may not start work. The answer is []Hold.
	Holds struct{}
	// Certificates asks which certificates a datacenter has. The answer is []writ.Certificate.
	Certificates struct{}
	// Plan asks what a run of these calls would do. Nothing comes of it. The answer is a writ.Preview.
	Plan = writ.Proposal
	// LogOfNode asks for lines of the log of a node. The answer is a NodeLog.
	LogOfNode struct {
		Node   writ.NodeID `json:"node"`
		Source string      `json:"source,omitempty"` // only this one
		Level  string      `json:"level,omitempty"`  // only this level and higher ones
		Since  time.Time   `json:"since,omitzero"`   // by the clock of the node
		After  string      `json:"after,omitempty"`  // the position behind an earlier answer, "" for the newest lines
		Lines  int         `json:"lines,omitempty"`
	}
	// NodeLog are lines of the log of a node, in its own words: what it answers now, or if it is away the last warnings that it told.
	NodeLog struct {
		Lines []NodeLine `json:"lines"`          // oldest first
		Boot  string     `json:"boot,omitempty"` // of the node's last start; lines with another one are of earlier starts
		Next  string     `json:"next,omitempty"` // the position behind them
		Lost  bool       `json:"lost,omitempty"` // lines behind the position that was asked for are gone
		More  bool       `json:"more,omitempty"` // there are more lines behind Next already
		Away  string     `json:"away,omitempty"` // why the node does not answer, "" if it does
		Told  time.Time  `json:"told,omitzero"`  // when it told its last warnings, if it does not answer
	}
	// Logs asks for at most Max lines that a run's script wrote after the ordinal After. The answer is []writ.LogLine.
	Logs struct {
		Run   writ.RunID `json:"run"`
		After int        `json:"after"`
		Max   int        `json:"max"`
	}
	// Values asks for a run with its output and what its calls after the number After answered. The answer is RunValues.
	Values struct {
		Run   writ.RunID `json:"run"`
		After int        `json:"after,omitempty"`
	}
	// RunValues is a run as its datacenter knows it now.
	RunValues struct {
		Run   writ.Run     `json:"run"`
		Calls []CallValues `json:"calls"`
	}
	// CallValues is a call with its arguments and its result.
	CallValues struct {
		writ.Call
		Args   map[string]any `json:"args,omitempty"`
		Values map[string]any `json:"values,omitempty"`
	}
	// Queues asks for the depth of the queues. The answer is []QueueDepth.
	Queues struct{}
	// QueueDepth is the queue of a node, and for how long the oldest call waits there that is planned or queued. Ages are 0 if there is none, and in the
	// answers of earlier versions. That of a call without a node begins anew when it waits for something else.
	QueueDepth struct {
		writ.QueueDepth
		OldestPlanned time.Duration `json:"oldest_planned,omitempty"` // nanoseconds
		OldestQueued  time.Duration `json:"oldest_queued,omitempty"`
	}
	// Secrets asks which secrets there are in a project, in all if Project is empty. The answer is []writ.Secret.
	Secrets struct {
		Project writ.ProjectID `json:"project,omitempty"`
	}
	// Resources asks for the resources of a project, of all if Project is empty. The answer is []writ.Resource, with values.
	Resources struct {
		Project writ.ProjectID `json:"project,omitempty"`
	}
)

// NodeLine is a line of the log of a node.
type NodeLine struct {
	Time   time.Time `json:"time"`           // by the node's clock
	Boot   string    `json:"boot,omitempty"` // the kernel's id of the start of the machine in which it was written
	Source string    `json:"source"`         // "runner", "boot", "kernel", or the name of a service
	Level  string    `json:"level"`          // "debug", "info", "warn" or "error"
	Text   string    `json:"text"`
}

// Hold is the newest decision about a part of the work of a datacenter: that it starts no work, or that it does again. The part is all of it, a project,
// a deployment or an operation.
type Hold struct {
	Project     writ.ProjectID `json:"project,omitempty"`
	ProjectName string         `json:"project_name,omitempty"`
	Deployment  string         `json:"deployment,omitempty"`
	Operation   string         `json:"operation,omitempty"`
	Held        bool           `json:"held"`
	// Exempt says of what is released that it was taken out of a wider hold, which holds the rest.
	Exempt     bool            `json:"exempt,omitempty"`
	Revision   int64           `json:"revision"` // statements name it
	ByOperator bool            `json:"by_operator,omitempty"`
	Decided    []writ.Decision `json:"decided"` // the last ones, oldest first
}

// Nodes asks for what is known of the nodes at this moment. The answer is a list of NodeNow.
type Nodes struct{}

// NodeNow is what a datacenter knows of a node at this moment, as far as events tell it late or not at all.
type NodeNow struct {
	ID         writ.NodeID     `json:"id"`
	Admission  writ.Admission  `json:"admission,omitempty"`
	Scheduling writ.Scheduling `json:"scheduling,omitempty"`
	Liveness   writ.Liveness   `json:"liveness,omitempty"`
	LastBeat   time.Time       `json:"last_beat,omitzero"`
	Fault      string          `json:"fault,omitempty"`
	Slots      int             `json:"slots,omitempty"` // 0 if the node has not said yet, or the supervisor is of an earlier version
	Capacity   writ.Capacity   `json:"capacity,omitzero"`
	// Decisions about it, which a statement compares: 0 if there was none, or the supervisor is of an earlier version.
	Revision int               `json:"revision,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Decided  []writ.Decision   `json:"decided,omitempty"`
	Waiting  *writ.Node        `json:"waiting,omitempty"` // all of one that waits to be admitted, of which no event tells
}

// RunStanding is the supervisor's signed word on how a run stands when a client asks. An end that was signed before the run was resumed stays
// signed; this says which one is the last.
type RunStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Run        writ.RunID        `json:"run"`
	State      writ.RunState     `json:"state"`
	Resumes    int               `json:"resumes"` // how often it was resumed
	Summary    writ.Digest       `json:"summary"` // SHA-256 of the signed summary, zero while the run is open
	Nonce      []byte            `json:"nonce"`   // of the client that asked
	Time       int64             `json:"time"`    // unix milliseconds
}

// NodeStanding is the supervisor's signed word on how a node stands when a client asks.
type NodeStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Key        string            `json:"key"` // its fingerprint
	Admission  writ.Admission    `json:"admission"`
	Scheduling writ.Scheduling   `json:"scheduling"`
	Revision   int               `json:"revision"` // decisions about it
	Nonce      []byte            `json:"nonce"`    // of the client that asked
	Time       int64             `json:"time"`     // unix milliseconds
}

// TokenStanding is the supervisor's signed word on its join tokens when a client asks. People choose a token by who made it, until when it counts and
// whom it admitted; so these have to be those of the id beside them.
type TokenStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Tokens     []StandingToken   `json:"tokens"` // those that last longest, first
	Nonce      []byte            `json:"nonce"`  // of the client that asked
	Time       int64             `json:"time"`   // unix milliseconds
}

// StandingToken is a join token of a TokenStanding.
type StandingToken struct {
	ID        string   `json:"id"`
	CreatedBy string   `json:"created_by"`
	Expires   int64    `json:"expires"` // unix milliseconds
	Uses      int      `json:"uses"`
	Nodes     []string `json:"nodes"` // that it admitted
}

// HoldStanding is the supervisor's signed word on what may not start work when a client asks. It names the projects that it is about: otherwise a
// coordinator could ask for fewer of them, and so hide a hold.
type HoldStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Projects   []writ.ProjectID  `json:"projects"` // as asked for
	Holds      []Hold            `json:"holds"`    // of these, and of what belongs to no project
	Nonce      []byte            `json:"nonce"`    // of the client that asked
	Time       int64             `json:"time"`     // unix milliseconds
}
