// Package nodes is the door of a supervisor for its nodes: the HTTP requests with which a node joins, learns the rosters and its
// account at the queue, and fetches the signed text behind a destructive job. It knows the messages and both ends of the wire, not how a run advances.
package nodes

import (
	"context"

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
	Rosters   [][]byte `json:"rosters"` // signed texts, version 1 first
	Nonce     []byte   `json:"nonce"`
	Signature []byte   `json:"signature"`
}

// Claim is the joiner's turn: its token's proof over both nonces and all that it says of itself (identity.JoinClaimText). It is sent only
// after the supervisor was verified against the token's pin. Without a token Proof is empty and the signature of the joiner's own key, over
// the same bytes, stands alone.
type Claim struct {
	Hello     Hello  `json:"hello"`
	Nonce     []byte `json:"nonce"` // the supervisor's
	Proof     []byte `json:"proof,omitempty"`
	Signature []byte `json:"signature"` // by the joiner's key: possession
}

// Welcome tells a node who it is.
type Welcome struct {
	Node       writ.NodeID       `json:"node"`
	Name       string            `json:"name"`
	Admission  writ.Admission    `json:"admission"`
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Epoch      int64             `json:"epoch"`
}

// Account is how a node gets into the queue. It travels sealed by the supervisor.
type Account struct {
	Node   writ.NodeID `json:"node"`
	User   string      `json:"user,omitempty"`   // "" if the queue has no accounts: the node goes in as its own configuration says
	Secret []byte      `json:"secret,omitempty"` // the password, encrypted to the age key that the node named when it joined
}

// Backend is what the door needs of a supervisor.
type Backend interface {
	// Greet answers a hello. It remembers its nonce for a minute.
	Greet(ctx context.Context, hello Hello) (Proof, error)
	// Admit spends the token and records the node. The same claim, or another of the same key with the same token, is answered
	// again, so that a lost answer costs nothing.
	Admit(ctx context.Context, claim Claim) (Welcome, error)
	// Rosters returns the signed rosters after a version, oldest first.
	Rosters(ctx context.Context, after int) ([][]byte, error)
	// Payload returns a submission (signed text and signature) by the SHA-256 of its text.
	Payload(ctx context.Context, digest writ.Digest) ([]byte, error)
	// Account returns the Account of an approved node, sealed. Whoever asks can open nothing in it but the node.
	Account(ctx context.Context, node writ.NodeID) ([]byte, error)
}
