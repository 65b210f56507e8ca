package identity

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"time"

	"writ"
	"writ/identity/header"
	"writ/internal/lazyregexp"
)

const (
	// Skew is the tolerated difference between the clocks of a signer and a verifier.
	Skew = time.Minute
	// MaxValidity limits the validity of a payload or statement after its creation.
	MaxValidity = 24 * time.Hour
	// DefaultValidity is the default validity of a payload or statement.
	DefaultValidity = 15 * time.Minute
)

// Format is the version of a signed text's format. It is in the first line of the text.
type Format int

// The formats of payloads and statements. Rosters have separate formats, see Roster.Format.
const (
	FormatV2 Format = 2 // signed by a plain key
	FormatV3 Format = 3 // the line `certificate` names the signer's certificate
)

// writeFormat writes the first line of a text. The formats `first` to `last` are allowed.
func writeFormat(w *header.Writer, key string, f, first, last Format) {
	w.Check(f >= first && f <= last, key, "unknown format %d", f)
	w.Line(key, "v"+strconv.Itoa(int(f)))
}

// readFormat reads the first line of a text. The formats `first` to `last` are allowed.
func readFormat(r *header.Reader, key string, first, last Format) Format {
	s := r.One(key)
	for f := first; f <= last; f++ {
		if s == "v"+strconv.Itoa(int(f)) {
			return f
		}
	}
	r.Fail("this version of writ does not know the format %q", header.Clip(s))
	return 0
}

// Nonce is a random value that makes texts with the same content differ.
type Nonce [16]byte

// NewNonce returns a random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// String returns the nonce as 32 hex digits.
func (n Nonce) String() string { return hex.EncodeToString(n[:]) }

func writeNonce(w *header.Writer, n Nonce) {
	w.Check(n != Nonce{}, "nonce", "not set")
	w.Line("nonce", n.String())
}

func readNonce(r *header.Reader) Nonce {
	var n Nonce
	s := r.One("nonce")
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(n) {
		copy(n[:], b)
	} else {
		r.Fail("a nonce has %d hex digits", 2*len(n))
	}
	return n
}

var (
	principalPattern = lazyregexp.New(`^[a-z0-9][a-z0-9._:/@-]{0,62}$`)
	clusterPattern   = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// ValidPrincipal reports whether s is a valid name of a signer: 1 to 63 lower-case letters, digits and "._:/@-", of
// which the first is a letter or digit.
func ValidPrincipal(s string) bool { return principalPattern.MatchString(s) }

func writeSigner(w *header.Writer, name string) {
	w.Check(ValidPrincipal(name), "signer", "%q is not a valid name", name)
	w.Line("signer", name)
}

func writeCluster(w *header.Writer, id writ.ClusterID) {
	w.Check(clusterPattern.MatchString(string(id)), "cluster", "%q is not the id of a cluster (64 hex digits)", id)
	w.Line("cluster", string(id))
}

// writeRosterSeen writes the version and the digest of the roster that the signer has seen.
func writeRosterSeen(w *header.Writer, version int, digest writ.Digest) {
	w.Check(version >= 1 &&
		version <= maxRosterVersion, "roster", "%d is not between 1 and %d", version, maxRosterVersion)
	w.Check(!digest.IsZero(), "roster", "the digest is missing")
	w.Line("roster", strconv.Itoa(version)+" "+digest.String())
}

// readRosterSeen reads the version and the digest of a roster.
func readRosterSeen(r *header.Reader) (version int, digest writ.Digest) {
	s := r.One("roster")
	if r.Err() != nil {
		return 0, writ.Digest{}
	}
	words := r.Fields(s, 2)
	version, err := strconv.Atoi(words[0])
	if err != nil {
		r.Fail("%q is not the version of a roster", header.Clip(words[0]))
	}
	if digest, err = writ.ParseDigest(words[1]); err != nil {
		r.Fail("%v", err)
	}
	return version, digest
}

// writeCertificate writes the line with the signer's certificate. Only the format v3 has this line.
func writeCertificate(w *header.Writer, f Format, certificate writ.Digest) {
	w.Check((f == FormatV3) == !certificate.IsZero(), "certificate",
		"the format v3 is only for texts signed with a certificate")
	if f == FormatV3 {
		w.Line("certificate", certificate.String())
	}
}

// readCertificate reads the line with the signer's certificate in FormatV3.
func readCertificate(r *header.Reader, f Format) (certificate writ.Digest) {
	if f != FormatV3 {
		return certificate
	}
	return r.Digest("certificate")
}
