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

// Each kind of id has its own type, so that the compiler rejects a node id in place of a datacenter id.
type (
	// ClusterID is the SHA-256 of the SSH public key blob of the roster's root, as 64 hex digits. Join tokens pin it.
	ClusterID string
	// DatacenterID is the UUID of a datacenter. It is never reused.
	DatacenterID string
	// NodeID is the UUID of a node. It also names the node's queue.
	NodeID string
	// ProjectID is the UUID of a project. Rights are bound to the id, not to the name.
	ProjectID string
	// TenantID is the UUID of a tenant.
	TenantID string
	// RunID identifies a run; see RunIDOf.
	RunID string
	// UID is the UUID of a resource. A resource that is created again under the same name gets a new UID.
	UID string
)

// Digest is a SHA-256 sum.
type Digest [sha256.Size]byte

// DigestOf returns the SHA-256 of b.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

// String returns the digest as 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is unset.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText encodes the digest as 64 lower-case hex digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText decodes 64 lower-case hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	v, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// ParseDigest decodes 64 lower-case hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return d, fmt.Errorf("a digest has %d hex digits, got %d characters", hex.EncodedLen(len(d)), len(s))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, err
	}
	if d.String() != s {
		return Digest{}, errors.New("a digest must be in lower case")
	}
	return d, nil
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// RunIDOf returns the id of the run that a payload with this digest creates: the first 128 bits of
// SHA-256("writ-run-v1\0" ‖ digest) as 26 base32 characters. Every process derives the same id. A coordinator can
// return it while the datacenter is unreachable. A submission keeps it after a restore of the journal.
func RunIDOf(payload Digest) RunID {
	sum := sha256.Sum256(append([]byte("writ-run-v1\x00"), payload[:]...))
	return RunID(lowerBase32.EncodeToString(sum[:16]))
}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	runPattern  = regexp.MustCompile(`^[a-z2-7]{26}$`)
)

// ValidName reports whether s is a valid name of a resource, node, project or other object. Names have 1 to 63
// lower-case letters, digits and hyphens, with no hyphen at the start.
func ValidName(s string) bool { return namePattern.MatchString(s) }

// ValidUUID reports whether s is a UUID in lower case.
func ValidUUID(s string) bool { return uuidPattern.MatchString(s) }

// Valid reports whether id has the form of a run id.
func (id RunID) Valid() bool { return runPattern.MatchString(string(id)) }

// NewUUID returns a version 7 UUID (RFC 9562): 48 bits of unix milliseconds, then random bits. These ids sort by age.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error; it ends the process instead
	ms := time.Now().UnixMilli()
	binary.BigEndian.PutUint16(b[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(ms))
	return uuidText(b, 7)
}

// UUIDOf returns the version 8 UUID (RFC 9562) that is derived from a text.
func UUIDOf(text []byte) string {
	sum := sha256.Sum256(text)
	return uuidText([16]byte(sum[:16]), 8)
}

func uuidText(b [16]byte, version byte) string {
	b[6], b[8] = b[6]&0x0f|version<<4, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
