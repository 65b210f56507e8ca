// Package nodes is the node API of a supervisor: the HTTP requests with which a node joins, learns the rosters and its
// account at the queue, and fetches the signed text behind a job. It knows the messages and both ends of the wire, not how a run advances.
package nodes

import (
	"context"
	"crypto/ed25519"
	"time"

	"writ"
)

// Hello opens a join: the joiner names its token (or none), its keys and a nonce.
type Hello struct {
	Token   string `json:"token,omitempty"` // the token's id, never its secret; empty asks to be admitted by a statement
	Name    string `json:"name"`            // what the node wants to be called
	Key     []byte `json:"key"`             // ed25519 public key, 32 bytes
	AgeKey  string `json:"age_key"`         // age recipient for secrets
	Nonce   []byte `json:"nonce"`           // 32 random bytes
	Version string `json:"version"`
}

// Proof is the supervisor's answer: it proves itself first. The signature is by the supervisor's key of the newest roster over
// "writ-join-v1\0" ‖ joiner's nonce ‖ supervisor's nonce ‖ joiner's key ‖ token id.
type Proof struct {
	Nonce     []byte `json:"nonce"`
	Signature []byte `json:"signature"`
	Serial    bool   `json:"serial,omitempty"` // whether the supervisor takes the serial number of a machine in a claim: earlier ones refuse it
}

// Claim is the joiner's turn: its token's proof over both nonces and all that it says of itself (identity.JoinClaimText). It is sent only
// after the supervisor was verified against the token's pin. Without a token Proof is empty and the signature of the joiner's own key, over
// the same bytes, stands alone.
type Claim struct {
	Hello     Hello  `json:"hello"`
	Nonce     []byte `json:"nonce"` // the supervisor's
	Proof     []byte `json:"proof,omitempty"`
	Signature []byte `json:"signature"` // by the joiner's key: possession
	// Serial is the number of the joiner's machine, "" if it does not say. It proves nothing: a person may have said which are expected.
	Serial string `json:"serial,omitempty"`
}

// Welcome tells a node who it is. Only Signed counts, a Membership in an envelope of the supervisor; the other fields say the same to nodes
// of an earlier version, which do not look into it.
type Welcome struct {
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Admission  writ.Admission    `json:"admission"`
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Epoch      int64             `json:"epoch"`
	Signed     []byte            `json:"signed,omitempty"`
}

// Membership is what a node is in its datacenter, as the supervisor signs it. It answers one question: that with the nonce.
type Membership struct {
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Key        []byte            `json:"key"` // of the node, ed25519
	Admission  writ.Admission    `json:"admission"`
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Epoch      int64             `json:"epoch"`
	Roster     int               `json:"roster"` // the newest version that the supervisor has
	Digest     writ.Digest       `json:"digest"` // of its text
	Nonce      []byte            `json:"nonce"`  // of the node's question
	Made       int64             `json:"made"`   // unix milliseconds
	// Lost is the signed statement that the node never comes back, where the node is told that. The supervisor's word alone stops nothing.
	Lost []byte `json:"lost,omitempty"`
}

// Account is how a node gets into the queue. It travels signed by the supervisor.
type Account struct {
	Node   writ.NodeID `json:"node"`
	User   string      `json:"user,omitempty"`   // "" if the queue has no accounts: the node goes in as its own configuration says
	Secret []byte      `json:"secret,omitempty"` // the password, encrypted to the age key that the node named when it joined
}

// AccountRequest is what a node says of itself when it asks for its account.
type AccountRequest struct {
	Node    writ.NodeID `json:"node"`
	Scripts int         `json:"scripts"` // ScriptsLoaded
}

// ScriptsLoaded says that the runner uses scripts that the supervisor has loaded, and brings none of its own to the queue.
const ScriptsLoaded = 1

// FenceAnswer is what a node did when it had learned that it is gone for its datacenter. It travels signed by the node.
type FenceAnswer struct {
	Node       writ.NodeID       `json:"node"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Round      int64             `json:"round"` // counts the answers of the node, across its starts
	Clock      int64             `json:"clock"` // unix milliseconds
	Stopped    []FencedResource  `json:"stopped,omitempty"`
	Open       []string          `json:"open,omitempty"`    // what it could not stop yet, in sentences
	Kept       []writ.Orphan     `json:"kept,omitempty"`    // what holds data and is still there, and what nobody has a record of
	Results    []writ.JobKey     `json:"results,omitempty"` // jobs that it has results of which its supervisor did not take
}

// FencedResource is a resource that runs no more.
type FencedResource struct {
	writ.ResourceID
	UID writ.UID `json:"uid,omitempty"`
}

// HostReport is what a node says of its machine, signed. It is sent when that has changed, when the supervisor has, and now and then besides. Its
// kind is its own, so that a supervisor which does not know it loses nothing else.
type HostReport struct {
	Node        writ.NodeID `json:"node"`
	Incarnation int64       `json:"incarnation"`
	Count       int64       `json:"count"` // numbers the host reports of an incarnation, from 1
	Epoch       int64       `json:"epoch"` // the highest that the runner has seen
	Host        writ.Host   `json:"hardware"`
}

// LogLine is a line of the log of a node, in the node's own words.
type LogLine struct {
	Time   time.Time `json:"time"`           // by the node's clock
	Boot   string    `json:"boot,omitempty"` // the kernel's id of the start of the machine in which it was written
	Source string    `json:"source"`         // "runner", "boot", "kernel", or the name of a service
	Level  string    `json:"level"`          // one of LogLevels
	Text   string    `json:"text"`
}

// LogLevels are the levels of lines of nodes, lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"}

// LogQuery says which lines of its log a node is asked for: the newest, or those behind a position. It travels in a writ.Control, as CBOR.
type LogQuery struct {
	ID     string `json:"id"`               // the answer repeats it
	Source string `json:"source,omitempty"` // only this one
	Level  string `json:"level,omitempty"`  // only this level and higher ones
	Since  int64  `json:"since,omitempty"`  // unix milliseconds
	After  string `json:"after,omitempty"`  // the position behind an earlier answer
	Lines  int    `json:"lines,omitempty"`
}

// LogReport is a part of the log of a node, signed: the answer to a query, or the last warnings, which a node tells by itself so that they can be read
// while it is away.
type LogReport struct {
	Node        writ.NodeID `json:"node"`
	Incarnation int64       `json:"incarnation"`
	Epoch       int64       `json:"epoch"`             // the highest that the runner has seen
	Query       string      `json:"query,omitempty"`   // the id of the query, "" for the last warnings
	Count       int64       `json:"count,omitempty"`   // numbers the last warnings of an incarnation, from 1
	Boot        string      `json:"boot"`              // the kernel's id of this start of the machine
	Lines       []LogLine   `json:"log_lines"`         // oldest first; those of earlier starts of the machine come before those of this one
	Next        string      `json:"next"`              // the position behind them
	Lost        bool        `json:"lost,omitempty"`    // lines behind the position of the query are gone
	More        bool        `json:"more,omitempty"`    // there are more lines behind Next already
	Refused     string      `json:"refused,omitempty"` // why a query has no answer, "" if it has one
}

// Bounds of a LogReport, which both sides keep.
const (
	MaxLogLines    = 1000
	MaxLogText     = 1 << 10   // bytes of each text
	MaxLogBytes    = 256 << 10 // of all lines together
	MaxLogPosition = 2 << 10   // bytes of a position
	MaxLogWarnings = 20        // lines that are told without a query
)

// Bounds of a HostReport, which both sides keep.
const (
	MaxDisks     = 64  // of a host
	MaxParts     = 128 // of all disks together
	MaxNICs      = 64
	MaxAddresses = 8   // of a network card
	MaxHostWord  = 128 // bytes of each text
)

// MaxFenced bounds each list of a FenceAnswer.
const MaxFenced = 300

// Members knows the nodes of a datacenter.
type Members interface {
	// Member returns the node with a signing key, whatever was decided about it; nil if there is none.
	Member(key ed25519.PublicKey) *writ.Node
	// Gone reports whether a person has signed that a node is lost.
	Gone(node writ.NodeID) bool
	// RosterPage returns the version after which the page of rosters begins for a node with a version, and the newest version.
	RosterPage(after int) (start, newest int)
}

// Backend is what the node API needs of a supervisor.
type Backend interface {
	// Greet answers a hello. It remembers its nonce for a minute.
	Greet(ctx context.Context, hello Hello) (Proof, error)
	// Admit spends the token and records the node. The same claim, or another of the same key with the same token, is answered
	// again, so that a lost answer costs nothing.
	Admit(ctx context.Context, claim Claim) (Welcome, error)
	// Standing returns the Membership of a node in an envelope, in answer to a question with a nonce. It is given to anybody who asks: only the
	// node gains something by it, which learns from it that it was removed.
	Standing(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error)
	// Fence returns the Membership of a node that is gone, in an envelope of its own kind, in answer to a question with a nonce: the node is to
	// stop what it has. It is NOT_FOUND for all others.
	Fence(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error)
	// Fenced takes the FenceAnswer of a node that is gone, as it signed it.
	Fenced(ctx context.Context, node writ.NodeID, signed []byte) error
	// Rosters returns a page of the links that lead from a version of the roster to the newest one; see identity.Roster.Path.
	Rosters(ctx context.Context, after int) ([][]byte, error)
	// Payload returns a submission (signed text and signature) by the SHA-256 of its text.
	Payload(ctx context.Context, digest writ.Digest) ([]byte, error)
	// Account returns the Account of an approved node, signed. Whoever asks can open nothing in it but the node. asked is an AccountRequest that
	// the node has signed, nil if it does not say anything: then its runner is an older one.
	Account(ctx context.Context, node writ.NodeID, asked []byte) ([]byte, error)
}
