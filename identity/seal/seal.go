// Package seal makes and opens the sealed bytes that supervisors and nodes exchange across Redis: one ed25519 signature over a
// frame of up to 64 records. It knows keys and bytes, not what a record asks for, and no transport.
package seal

import (
	"crypto/ed25519"

	"writ"
)

// Kind separates the purposes of seals: a signature for one kind never opens as another.
type Kind string

// The kinds.
const (
	Job     Kind = "job"     // supervisor → node, each record travels alone
	Control Kind = "control" // supervisor → node
	Result  Kind = "result"  // node → supervisor
	Beat    Kind = "beat"    // node → supervisor
	Summary Kind = "summary" // supervisor → client
)

// MaxRecords is how many records one signature may cover.
const MaxRecords = 64

// KeyID names a signing key: the SHA-256 of the public key, as 64 hex digits.
type KeyID string

// IDOf returns the id of a public key.
func IDOf(key ed25519.PublicKey) KeyID { return KeyID(writ.DigestOf(key).String()) }
