package writ

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Every id has a type of its own, so that a node can never be passed where a datacenter is meant.
type (
	// ClusterID is the SHA-256 of the roster root's SSH public key blob, as 64 hex digits. It is also the pin of every
	// join token.
	ClusterID string
	// DatacenterID is the UUID of a datacenter. It is never used again after the datacenter is gone.
	DatacenterID string
	// NodeID is the UUID of a node, and the name of its queue.
	NodeID string
	// ProjectID is the UUID of a project. Rights hang on it, not on the project's name.
	ProjectID string
	// TenantID is the UUID of a tenant.
	TenantID string
	// RunID names a run; see RunIDOf.
	RunID string
	// UID is the UUID that a resource gets when it is made; a resource that is made again under an old name gets another.
	UID string
)

// Digest is a SHA-256 sum.
type Digest [sha256.Size]byte

// DigestOf returns the SHA-256 of b.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

// String returns the digest as 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes the digest as 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 lower-case hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	v, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// ParseDigest reads 64 lower-case hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return d, fmt.Errorf("a digest has %d hex digits, got %d characters", hex.EncodedLen(len(d)), len(s))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, err
	}
	if d.String() != s {
		return Digest{}, errors.New("a digest is written in lower case")
	}
	return d, nil
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// RunIDOf returns the id of the run that a payload with this digest makes: the first 128 bits of
// SHA-256("writ-run-v1\0" ‖ digest) as 26 base32 characters. Everyone who sees the payload computes the same id, so a
// coordinator can answer before the datacenter is reachable and a restored journal cannot rename a replay.
func RunIDOf(payload Digest) RunID {
	sum := sha256.Sum256(append([]byte("writ-run-v1\x00"), payload[:]...))
	return RunID(lowerBase32.EncodeToString(sum[:16]))
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	runPattern  = regexp.MustCompile(`^[a-z2-7]{26}$`)
)

// ValidName reports whether s may name a resource, a node, a project or anything else that a person names: 1 to 63 lower-case
// letters, digits and hyphens, not beginning with a hyphen.
func ValidName(s string) bool { return namePattern.MatchString(s) }

// ValidUUID reports whether s is a UUID in its lower-case form.
func ValidUUID(s string) bool { return uuidPattern.MatchString(s) }

// Valid reports whether id has the form of a run id.
func (id RunID) Valid() bool { return runPattern.MatchString(string(id)) }

// NewUUID returns a UUID of version 7 (RFC 9562): 48 bits of unix milliseconds, then random bits, so that ids sort by age.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails; it ends the process if it must
	ms := time.Now().UnixMilli()
	binary.BigEndian.PutUint16(b[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(ms))
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
