package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/chain"
	"writ/identity/sshsig"
)

// Chain returns the verified chain that leads to r. For an unverified roster, the chain contains only r.
func (r *Roster) Chain() chain.Chain {
	if !r.chain.IsEmpty() {
		return r.chain
	}
	digest, _ := r.textDigest() // a verified roster always has a digest
	return chain.New(chain.Entry{Version: r.Version, Digest: digest}, !r.History.IsZero())
}

// follow sets the chain of a verified roster that follows previous and the skipped versions. previous is nil for the
// first roster.
func (r *Roster) follow(previous *Roster, skipped []writ.Digest) {
	entry := chain.Entry{Version: r.Version, Digest: r.digest, Waypoint: isWaypoint(r, previous)}
	if previous == nil {
		r.chain = chain.New(entry, !r.History.IsZero())
	} else {
		r.chain = previous.Chain().Then(skipped, entry, !r.History.IsZero())
	}
}

// isWaypoint reports whether a verifier needs the text of r to verify later versions. The text is needed if r changes
// the signers of the next version or the addresses of coordinators. It is also needed if r has no history, or if
// chain.Milestone divides its version.
func isWaypoint(r, previous *Roster) bool {
	return previous == nil || r.History.IsZero() || r.Version%chain.Milestone == 0 ||
		signersOf(r) != signersOf(previous) || coordinatorURLs(r) != coordinatorURLs(previous)
}

// signersOf returns a text that identifies the signatures that the next version needs.
func signersOf(r *Roster) string {
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

// coordinatorURLs returns a text that identifies the addresses of coordinators. A supervisor does not dial addresses
// that only an earlier roster has.
func coordinatorURLs(r *Roster) string {
	var urls []string
	for _, c := range r.Coordinators {
		urls = append(urls, c.URLs...)
	}
	return strings.Join(slices.Sorted(slices.Values(urls)), "\n")
}

// Has reports whether the roster of a link is part of the chain that leads to r.
func (r *Roster) Has(link []byte) bool {
	version, _, err := chain.Versions(link)
	if err != nil || version > r.Version {
		return false
	}
	text, _, err := sshsig.SplitAll(chain.Signed(link))
	_, entry, known := r.Chain().At(version)
	return err == nil && known && entry.Digest == writ.DigestOf(text)
}

// Earlier parses a signed roster of the chain that leads to r. The error is ROSTER_INVALID if the text is not part of
// the chain.
func (r *Roster) Earlier(signed []byte) (*Roster, error) {
	text, _, err := sshsig.SplitAll(chain.Signed(signed))
	if err != nil {
		return nil, err
	}
	earlier, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	part, entry, known := r.Chain().At(earlier.Version)
	if !known || entry.Digest != earlier.digest {
		return nil, badRoster("the chain that leads to version %d has another version %d", r.Version, earlier.Version)
	}
	earlier.chain = part
	return earlier, nil
}
