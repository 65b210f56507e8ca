package link

import (
	"bytes"
	"time"

	"writ"
)

// Messages of the verbs. A coordinator sends all of them; a supervisor sends RosterVersion, to request missing rosters.
type (
	// Submit sends a submission: signed text and signature. The answer is a writ.Run. A repeated submission gets the
	// same answer.
	Submit struct {
		Signed []byte `json:"signed"`
	}
	// Statement sends a signed statement. The answer is a StatementAnswer.
	Statement struct {
		Signed []byte `json:"signed"`
	}
	// StatementAnswer is the result of a statement.
	StatementAnswer struct {
		Subject string `json:"subject"`         // subject of the statement
		Done    string `json:"done"`            // a sentence: "node n1 is cordoned"
		Proof   []byte `json:"proof,omitempty"` // the signed writ.Answer
		Begun   bool   `json:"begun,omitempty"` // only in a journal: the statement may have been carried out in part
	}
	// Rosters carries signed rosters, oldest first. The receiver skips known versions. The answer is a RosterVersion.
	Rosters struct {
		Signed [][]byte `json:"signed"`
	}
	// RosterVersion asks a coordinator for the rosters after a version (the answer is Rosters), or answers Rosters with
	// the newest version.
	RosterVersion struct {
		Version int `json:"version"`
	}
	// Adopted asks for the roster in force. The answer is an AdoptedAnswer.
	Adopted struct {
		Nonce []byte `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// AdoptedAnswer holds a signed writ.Adoption.
	AdoptedAnswer struct {
		Proof []byte `json:"proof"`
	}
	// Standing asks for the RunStanding of a run. The answer is a StandingAnswer.
	Standing struct {
		Run   writ.RunID `json:"run"`
		Nonce []byte     `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfNode asks for the NodeStanding of a node. The answer is a StandingAnswer.
	StandingOfNode struct {
		Node  writ.NodeID `json:"node"`
		Nonce []byte      `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfTokens asks for the TokenStanding. The answer is a StandingAnswer.
	StandingOfTokens struct {
		Nonce []byte `json:"nonce"` // of the client, writ.ClientNonce bytes
	}
	// StandingOfHolds asks for the HoldStanding of these projects. The answer is a StandingAnswer.
	StandingOfHolds struct {
		Projects []writ.ProjectID `json:"projects,omitempty"` // "*" means all projects
		Nonce    []byte           `json:"nonce"`              // of the client, writ.ClientNonce bytes
	}
	// StandingAnswer holds a signed RunStanding, NodeStanding, TokenStanding or HoldStanding.
	StandingAnswer struct {
		Proof []byte `json:"proof"`
	}
	// Tokens asks for the join tokens of a datacenter. The answer is []writ.JoinToken.
	Tokens struct{}
	// Batches asks for the approved batches of nodes of a datacenter. The answer is []Batch.
	Batches struct{}
	// Batch is a batch of nodes that a person approved in advance, by the serial numbers of their machines. It does not
	// contain the unused serial numbers, because any machine can report a known number.
	Batch struct {
		ID         string            `json:"id"`
		Datacenter writ.DatacenterID `json:"datacenter"`
		CreatedBy  string            `json:"created_by"`
		Reason     string            `json:"reason,omitempty"`
		Until      time.Time         `json:"until"`
		Revoked    time.Time         `json:"revoked,omitzero"`
		Void       string            `json:"void,omitempty"` // why it admits no nodes before its expiry, or ""
		Serials    int               `json:"serials"`        // number of serial numbers
		Max        int               `json:"max"`            // limit of admitted nodes
		Admitted   []BatchNode       `json:"admitted"`
		// Contested lists waiting nodes that reported a serial number of another node.
		Contested []BatchNode `json:"contested,omitempty"`
	}
	// BatchNode is a node that reported a serial number of a batch.
	BatchNode struct {
		Serial    string         `json:"serial"`
		Name      string         `json:"name"`
		Key       string         `json:"key"` // fingerprint, "SHA256:…"
		Admission writ.Admission `json:"admission"`
		// Holder is the name of the node that has the serial number. It is set only in Contested.
		Holder string `json:"holder,omitempty"`
	}
	// Holds asks for all holds. The answer is []Hold.
	Holds struct{}
	// Certificates asks for the certificates of a datacenter. The answer is []writ.Certificate.
	Certificates struct{}
	// Plan asks for the effect of a run of these calls, without carrying them out. The answer is a writ.Preview.
	Plan = writ.Proposal
	// LogOfNode asks for lines of a node's log. The answer is a NodeLog.
	LogOfNode struct {
		Node   writ.NodeID `json:"node"`
		Source string      `json:"source,omitempty"` // only lines of this source
		Level  string      `json:"level,omitempty"`  // only this level and higher levels
		Since  time.Time   `json:"since,omitzero"`   // by the clock of the node
		After  string      `json:"after,omitempty"`  // position after an earlier answer, "" for the newest lines
		Lines  int         `json:"lines,omitempty"`
	}
	// NodeLog holds lines of a node's log as the node reported them: the node's current answer, or its last warnings if
	// it does not answer.
	NodeLog struct {
		Lines []NodeLine `json:"lines"` // oldest first
		// Boot identifies the node's last start; lines with another value come from earlier starts.
		Boot string    `json:"boot,omitempty"`
		Next string    `json:"next,omitempty"` // position after these lines
		Lost bool      `json:"lost,omitempty"` // lines after the requested position are gone
		More bool      `json:"more,omitempty"` // there are more lines after Next already
		Away string    `json:"away,omitempty"` // why the node does not answer, "" if it answers
		Told time.Time `json:"told,omitzero"`  // when its last warnings arrived, if it does not answer
	}
	// Logs asks for at most Max log lines of a run's script after the ordinal After. The answer is []writ.LogLine.
	Logs struct {
		Run   writ.RunID `json:"run"`
		After int        `json:"after"`
		Max   int        `json:"max"`
	}
	// Values asks for a run with its output, and for the results of its next Max calls after sequence number After, or
	// of all of them if Max is 0. The answer is RunValues.
	Values struct {
		Run   writ.RunID `json:"run"`
		After int        `json:"after,omitempty"`
		Max   int        `json:"max,omitempty"`
	}
	// RunValues is the current state of a run.
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
	// QueueDepth is the queue of a node, with the age of the oldest planned and the oldest queued call. An age is 0
	// without such a call, and in answers of earlier versions. For a call without a node the age restarts when the
	// reason for its wait changes.
	QueueDepth struct {
		writ.QueueDepth
		OldestPlanned time.Duration `json:"oldest_planned,omitempty"` // nanoseconds
		OldestQueued  time.Duration `json:"oldest_queued,omitempty"`
	}
	// Secrets asks for the secrets of a project, or of all projects if Project is empty. The answer is []writ.Secret.
	Secrets struct {
		Project writ.ProjectID `json:"project,omitempty"`
	}
	// Resources asks for the resources of a project, or of all projects if Project is empty. The answer is
	// []writ.Resource, with values.
	Resources struct {
		Project writ.ProjectID `json:"project,omitempty"`
	}
)

// NodeLine is a line of a node's log.
type NodeLine struct {
	Time   time.Time `json:"time"`           // by the node's clock
	Boot   string    `json:"boot,omitempty"` // kernel's boot ID when the line was written
	Source string    `json:"source"`         // "runner", "boot", "kernel", or the name of a service
	Level  string    `json:"level"`          // "debug", "info", "warn" or "error"
	Text   string    `json:"text"`
}

// Hold is the newest hold decision about a part of a datacenter's work: a hold or a release. The part is all work, a
// project, a deployment or an operation.
type Hold struct {
	Project     writ.ProjectID `json:"project,omitempty"`
	ProjectName string         `json:"project_name,omitempty"`
	Deployment  string         `json:"deployment,omitempty"`
	Operation   string         `json:"operation,omitempty"`
	Held        bool           `json:"held"`
	// Exempt is set for a release that is an exception from a wider hold.
	Exempt     bool            `json:"exempt,omitempty"`
	Revision   int64           `json:"revision"` // number that statements refer to
	ByOperator bool            `json:"by_operator,omitempty"`
	Decided    []writ.Decision `json:"decided"` // last decisions, oldest first
}

// Nodes asks for the current state of the nodes. The answer is a list of NodeNow.
type Nodes struct{}

// RunStanding is the supervisor's signed statement about the state of a run when a client asks. After a resume, the
// signed summary of the earlier end stays valid; RunStanding identifies the newest summary.
type RunStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Run        writ.RunID        `json:"run"`
	State      writ.RunState     `json:"state"`
	Resumes    int               `json:"resumes"` // number of resumes
	Summary    writ.Digest       `json:"summary"` // SHA-256 of the signed summary, zero while the run is open
	Nonce      []byte            `json:"nonce"`   // of the client that asked
	Time       int64             `json:"time"`    // unix milliseconds
}

// NodeStanding is the supervisor's signed statement about the state of a node when a client asks.
type NodeStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Key        string            `json:"key"` // fingerprint
	Admission  writ.Admission    `json:"admission"`
	Scheduling writ.Scheduling   `json:"scheduling"`
	Revision   int               `json:"revision"` // number of decisions about the node
	Nonce      []byte            `json:"nonce"`    // of the client that asked
	Time       int64             `json:"time"`     // unix milliseconds
}

// TokenStanding is the supervisor's signed statement about its join tokens when a client asks. People choose a token by
// its creator, its expiry and its nodes, so these are signed together with its ID.
type TokenStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Tokens     []StandingToken   `json:"tokens"` // latest expiry first
	Nonce      []byte            `json:"nonce"`  // of the client that asked
	Time       int64             `json:"time"`   // unix milliseconds
}

// StandingToken is a join token of a TokenStanding.
type StandingToken struct {
	ID        string   `json:"id"`
	CreatedBy string   `json:"created_by"`
	Expires   int64    `json:"expires"` // unix milliseconds
	Uses      int      `json:"uses"`
	Nodes     []string `json:"nodes"` // names of the nodes that it admitted
}

// HoldStanding is the supervisor's signed statement about the holds when a client asks. It contains the requested
// projects: otherwise a coordinator could hide a hold by requesting fewer projects.
type HoldStanding struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Projects   []writ.ProjectID  `json:"projects"` // as requested
	Holds      []Hold            `json:"holds"`    // of these projects, and holds without a project
	Nonce      []byte            `json:"nonce"`    // of the client that asked
	Time       int64             `json:"time"`     // unix milliseconds
}

func (s Submit) bytes() []byte { return s.Signed }

// setBytes copies the text: the programs of runs keep parts of it, and a message may have spare capacity.
func (s *Submit) setBytes(text []byte) { s.Signed = bytes.Clone(text) }
