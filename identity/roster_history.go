package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
)

// milestone bounds the versions that one link may skip: every version divisible by it is a waypoint.
const milestone = 4096

// nextHistory returns the history of a version from the history and digest of the version before it. The history is a
// hash chain over the digests of all earlier versions, so it proves them without their texts.
func nextHistory(history, digest writ.Digest) writ.Digest {
	return writ.DigestOf(slices.Concat([]byte("writ-roster-history-v1\x00"), history[:], digest[:]))
}

// historyAfter returns the history of the version that follows r and the skipped versions.
func (r *Roster) historyAfter(skipped []writ.Digest) (writ.Digest, error) {
	digest, err := r.textDigest()
	if err != nil {
		return writ.Digest{}, err
	}
	history := nextHistory(r.History, digest)
	for _, d := range skipped {
		history = nextHistory(history, d)
	}
	return history, nil
}

// textDigest returns the digest of the roster's text. For a parsed roster it is already computed.
func (r *Roster) textDigest() (writ.Digest, error) {
	if !r.digest.IsZero() {
		return r.digest, nil
	}
	return r.Digest()
}

// isWaypointAfter reports whether a verifier needs the text of r to verify later versions. It does if r changes the
// signers of the next version or the addresses of coordinators, if r has no history, or if milestone divides its version.
func (r *Roster) isWaypointAfter(previous *Roster) bool {
	return previous == nil || r.History.IsZero() || r.Version%milestone == 0 ||
		r.signers() != previous.signers() || r.coordinatorURLs() != previous.coordinatorURLs()
}

// signers returns a text that identifies the signatures that the next version needs.
func (r *Roster) signers() string {
	lines := []string{fmt.Sprint(r.Threshold)}
	for _, name := range slices.Sorted(slices.Values(r.Operators)) {
		keys := map[string]bool{}
		if p := r.Principal(name); p != nil {
			for _, k := range p.Keys {
				if k.State == Active {
					keys[ssh.FingerprintSHA256(k.Key)] = true
				}
			}
		}
		lines = append(lines, name+" "+strings.Join(slices.Sorted(maps.Keys(keys)), " "))
	}
	return strings.Join(lines, "\n")
}

// coordinatorURLs returns a text that identifies the addresses of coordinators. A supervisor does not dial addresses that
// only an earlier roster has.
func (r *Roster) coordinatorURLs() string {
	var urls []string
	for _, c := range r.Coordinators {
		urls = append(urls, c.URLs...)
	}
	return strings.Join(slices.Sorted(slices.Values(urls)), "\n")
}
