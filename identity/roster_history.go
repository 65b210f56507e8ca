package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
)

// milestone is the distance of the versions that are waypoints by their number alone. It bounds the versions that one link may skip.
const milestone = 4096

// nextHistory returns the history of the version after one with a history and a digest. It is a hash chain over the digests of all versions,
// so a version that names its history proves every version before it, without their texts.
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

// textDigest returns the digest of the text, which is known for a roster that was parsed.
func (r *Roster) textDigest() (writ.Digest, error) {
	if !r.digest.IsZero() {
		return r.digest, nil
	}
	return r.Digest()
}

// isWaypointAfter reports whether a verifier needs the text of r to get from previous, or an earlier version, to a later one: it changes who
// signs the next version or where coordinators are, proves no history, or has a number that bounds the skips.
func (r *Roster) isWaypointAfter(previous *Roster) bool {
	return previous == nil || r.History.IsZero() || r.Version%milestone == 0 ||
		r.signers() != previous.signers() || r.coordinatorURLs() != previous.coordinatorURLs()
}

// signers returns a text that is equal for rosters whose successors need the same signatures.
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

// coordinatorURLs returns a text that is equal for rosters with the same addresses of coordinators. A supervisor links to no address that an
// earlier roster had and the newest one lacks.
func (r *Roster) coordinatorURLs() string {
	var urls []string
	for _, c := range r.Coordinators {
		urls = append(urls, c.URLs...)
	}
	return strings.Join(slices.Sorted(slices.Values(urls)), "\n")
}
