// Package nodes is the node API of a supervisor. Over HTTP, a node joins, fetches rosters, its account at the queue and
// the signed text of a job. The package contains the messages and both ends of the protocol. It does not depend on the
// code that advances runs.
package nodes

import (
	"context"
	"crypto/ed25519"
	"hash/crc32"
	"time"

	"writ"
)

// StartWithin limits how long the first delivery of a job may wait in the queue of its node. A node subtracts it from
// Job.StartBy to get the time at which the job was sent.
const StartWithin = time.Minute

// MaxBeatSeconds is the longest interval between two beats of a node without jobs, in seconds. With 200 nodes and a
// beat per second from each, an idle supervisor spent most of its time on beats.
const MaxBeatSeconds = 5

// BeatPhases is the number of times within a second at which nodes send beats.
const BeatPhases = 8

// BeatPhase returns the time within each second of the wall clock at which a node sends its beats. The supervisor reads
// the nodes of a phase together, so one read receives many beats. A node with a wrong clock only causes more reads.
func BeatPhase(node writ.NodeID) (phase int, at time.Duration) {
	phase = int(crc32.ChecksumIEEE([]byte(node)) % BeatPhases)
	return phase, time.Duration(phase) * time.Second / BeatPhases
}

// Hello starts a join: it contains the joiner's token ID (or none), its keys and a nonce.
type Hello struct {
	// Token is the ID of the token, never its secret. If it is empty, a statement must admit the node.
	Token   string `json:"token,omitempty"`
	Name    string `json:"name"`    // requested name
	Key     []byte `json:"key"`     // ed25519 public key, 32 bytes
	AgeKey  string `json:"age_key"` // age recipient for secrets
	Nonce   []byte `json:"nonce"`   // 32 random bytes
	Version string `json:"version"`
}

// Proof is the supervisor's answer to a Hello. The supervisor proves its identity first. The joiner then proves its own
// identity with a Claim. Signature is made with the supervisor's key in the newest roster, over "writ-join-v1\0" ‖
// joiner's nonce ‖ supervisor's nonce ‖ joiner's key ‖ token id.
type Proof struct {
	Nonce     []byte `json:"nonce"`
	Signature []byte `json:"signature"`
	// Serial is set if a claim may contain a machine's serial number: supervisors of earlier versions reject such a
	// claim.
	Serial bool `json:"serial,omitempty"`
}

// Claim is the joiner's second message. Proof is the token's proof over both nonces and all facts about the joiner
// (identity.JoinClaimText). The joiner sends it only after verifying the supervisor against the token's pin. Without a
// token Proof is empty, and only Signature covers the same bytes.
type Claim struct {
	Hello     Hello  `json:"hello"`
	Nonce     []byte `json:"nonce"` // the supervisor's
	Proof     []byte `json:"proof,omitempty"`
	Signature []byte `json:"signature"` // by the joiner's key: proves possession
	// Serial is the serial number of the joiner's machine, "" if unknown. It proves no identity, but a person may have
	// listed the expected serial numbers.
	Serial string `json:"serial,omitempty"`
}

// Welcome is the result of a join. Only Signed is authoritative: a Membership in an envelope of the supervisor. The
// other fields repeat it for nodes of an earlier version, which do not read Signed.
type Welcome struct {
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Admission  writ.Admission    `json:"admission"`
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Epoch      int64             `json:"epoch"`
	Signed     []byte            `json:"signed,omitempty"`
}

// Membership is the supervisor's signed statement about a node. It answers the request with the same nonce.
type Membership struct {
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Key        []byte            `json:"key"` // of the node, ed25519
	Admission  writ.Admission    `json:"admission"`
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Epoch      int64             `json:"epoch"`
	Roster     int               `json:"roster"` // newest version that the supervisor has
	Digest     writ.Digest       `json:"digest"` // of that roster's text
	Nonce      []byte            `json:"nonce"`  // from the node's request
	Made       int64             `json:"made"`   // unix milliseconds
	// Lost is the signed statement that declares the node lost, in an answer to a fence request. Only this statement
	// makes the node stop its resources: the supervisor's signature is not enough.
	Lost []byte `json:"lost,omitempty"`
}

// Account holds the credentials of a node at the queue, in an envelope of the supervisor.
type Account struct {
	Node writ.NodeID `json:"node"`
	// "" if the queue has no accounts: the node then uses its own configuration.
	User   string `json:"user,omitempty"`
	Secret []byte `json:"secret,omitempty"` // password, encrypted to the node's age key from its join
}

// AccountRequest holds a node's facts for an account request.
type AccountRequest struct {
	Node    writ.NodeID `json:"node"`
	Scripts int         `json:"scripts"` // ScriptsLoaded, or 0
}

// ScriptsLoaded means that the runner uses the queue scripts loaded by the supervisor and loads none itself.
const ScriptsLoaded = 1

// FenceAnswer reports the actions of a node that learned that it was declared lost. The node signs it.
type FenceAnswer struct {
	Node       writ.NodeID       `json:"node"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Round      int64             `json:"round"` // number of the answer, counted across restarts
	Clock      int64             `json:"clock"` // unix milliseconds
	Stopped    []FencedResource  `json:"stopped,omitempty"`
	Open       []string          `json:"open,omitempty"` // resources not stopped yet, as sentences
	// Kept lists the objects that the node does not remove: objects with data, and objects without a record.
	Kept    []writ.Orphan `json:"kept,omitempty"`
	Results []writ.JobKey `json:"results,omitempty"` // jobs with unacknowledged results
}

// FencedResource is a stopped resource.
type FencedResource struct {
	writ.ResourceID
	UID writ.UID `json:"uid,omitempty"`
}

// HostReport holds signed facts about a node's machine. It is sent when the facts or the supervisor change, and
// periodically. It has its own envelope kind, so that an older supervisor ignores only this report.
type HostReport struct {
	Node        writ.NodeID `json:"node"`
	Incarnation int64       `json:"incarnation"`
	Count       int64       `json:"count"` // number of the report within an incarnation, from 1
	Epoch       int64       `json:"epoch"` // highest epoch that the runner has seen
	Host        writ.Host   `json:"hardware"`
}

// LoadReport holds the load of the resources of a node. It replaces the previous report, and is not acknowledged.
type LoadReport struct {
	Node        writ.NodeID `json:"node"`
	Incarnation int64       `json:"incarnation"`
	Count       int64       `json:"count"` // number of the report within an incarnation, from 1
	Epoch       int64       `json:"epoch"` // highest epoch that the runner has seen
	Loads       []Load      `json:"loads"` // at most MaxLoads
}

// Load is the load of a resource.
type Load struct {
	UID       writ.UID `json:"uid"`
	Running   bool     `json:"running,omitempty"`
	MilliCPUs int64    `json:"milli_cpus"`         // mean since the previous report
	Memory    int64    `json:"memory"`             // bytes
	Restarts  int64    `json:"restarts,omitempty"` // by the node, because the processes had ended
}

// MaxLoads limits the loads in a LoadReport.
const MaxLoads = 2000

// LogLine is a line of a node's log, as the node reported it.
type LogLine struct {
	Time   time.Time `json:"time"`           // by the node's clock
	Boot   string    `json:"boot,omitempty"` // kernel's boot ID when the line was written
	Source string    `json:"source"`         // "runner", "boot", "kernel", or the name of a service
	Level  string    `json:"level"`          // one of LogLevels
	Text   string    `json:"text"`
}

// LogLevels lists the levels of log lines, lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"}

// LogQuery asks a node for lines of its log: the newest, or the lines after a position. It is sent in a writ.Control,
// as CBOR.
type LogQuery struct {
	ID     string `json:"id"`               // repeated in the answer
	Source string `json:"source,omitempty"` // only lines of this source
	Level  string `json:"level,omitempty"`  // only this level and higher levels
	Since  int64  `json:"since,omitempty"`  // unix milliseconds
	After  string `json:"after,omitempty"`  // position after an earlier answer
	Lines  int    `json:"lines,omitempty"`
}

// LogReport is a signed part of a node's log: the answer to a query, or the last warnings. A node sends its warnings
// without a query, so that people can read them while the node is unreachable.
type LogReport struct {
	Node        writ.NodeID `json:"node"`
	Incarnation int64       `json:"incarnation"`
	Epoch       int64       `json:"epoch"`           // highest epoch that the runner has seen
	Query       string      `json:"query,omitempty"` // ID of the query, "" for the last warnings
	Count       int64       `json:"count,omitempty"` // number of the warnings report within an incarnation, from 1
	Boot        string      `json:"boot"`            // kernel's boot ID of the current start
	// Lines are ordered oldest first. Lines of earlier boots precede the lines of this boot.
	Lines   []LogLine `json:"log_lines"`
	Next    string    `json:"next"`              // position after these lines
	Lost    bool      `json:"lost,omitempty"`    // lines after the position of the query are gone
	More    bool      `json:"more,omitempty"`    // there are more lines after Next already
	Refused string    `json:"refused,omitempty"` // why the node did not answer the query, "" with an answer
}

// Limits of a LogReport. Both sides enforce them.
const (
	MaxLogLines    = 1000
	MaxLogText     = 1 << 10   // bytes of each text
	MaxLogBytes    = 256 << 10 // all lines together
	MaxLogPosition = 2 << 10   // bytes of a position
	MaxLogWarnings = 20        // lines sent without a query
)

// Limits of a HostReport. Both sides enforce them.
const (
	MaxDisks     = 64  // per host
	MaxParts     = 128 // all disks together
	MaxNICs      = 64
	MaxAddresses = 8   // per network card
	MaxHostWord  = 128 // bytes of each text
)

// MaxFenced limits each list of a FenceAnswer.
const MaxFenced = 300

// Members provides the nodes of a datacenter.
type Members interface {
	// Member returns the node with a signing key, in any admission state; nil if the key is unknown.
	Member(key ed25519.PublicKey) *writ.Node
	// Gone reports whether a person has declared the node lost.
	Gone(node writ.NodeID) bool
	// RosterPage returns the version after which the page of rosters starts for a node that has version `after`, and
	// the newest version.
	RosterPage(after int) (start, newest int)
}

// Backend is the part of a supervisor that the node API uses.
type Backend interface {
	// Greet answers a hello. The nonce of the proof is valid for a minute.
	Greet(ctx context.Context, hello Hello) (Proof, error)
	// Admit spends the token and records the node. A repeated claim, or another claim with the same key and token, gets
	// the same answer, so that a lost answer does no harm.
	Admit(ctx context.Context, claim Claim) (Welcome, error)
	// Standing returns the Membership of a node in an envelope, for a request with a nonce. Any client may request it.
	// Only the node needs the answer: it shows whether the node was removed.
	Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error)
	// Fence returns the Membership of a lost node in an envelope of its own kind, for a request with a nonce. It orders
	// the node to stop its resources. The error is NOT_FOUND for a node that no person has declared lost.
	Fence(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error)
	// Fenced stores the signed FenceAnswer of a lost node.
	Fenced(ctx context.Context, node writ.NodeID, signed []byte) error
	// Rosters returns a page of the links from a version of the roster to the newest version; see the method Path of
	// identity.Roster.Chain.
	Rosters(ctx context.Context, after int) ([][]byte, error)
	// Payload returns a submission (signed text and signature) by the SHA-256 of its text.
	Payload(ctx context.Context, digest writ.Digest) ([]byte, error)
	// Account returns the signed Account of an approved node. Only the node can decrypt it. asked is a signed
	// AccountRequest.
	Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error)
}
