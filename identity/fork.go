package identity

import (
	"sync"

	"writ"
)

// ancestor is an earlier version in the verified chain of a roster.
type ancestor struct {
	version  int
	digest   writ.Digest
	waypoint bool // see Roster.isWaypointAfter
	unproven bool // the roster names no history
	before   *ancestor
}

// checkSeen compares the roster that a signer has seen with the same version in the chain that leads to r. Another
// digest is ROSTER_FORK: two rosters of one version were signed. Versions after r, and versions before the start of the
// verified chain, are unknown and pass.
func (r *Roster) checkSeen(version int, digest writ.Digest) error {
	if digest.IsZero() || version > r.Version {
		return nil
	}
	have := r.asAncestor()
	for have != nil && have.version > version {
		have = have.before
	}
	if have == nil || have.version == version && have.digest == digest {
		return nil
	}
	here := "the chain of rosters here has no such version"
	if have.version == version {
		here = "here it has the digest " + have.digest.String()
	}
	return writ.Errorf(writ.CodeRosterFork, "the signer has seen version %d of the roster with the digest %s; %s", version, digest, here).
		WithHint("keep both rosters as evidence and inform the root operators; the root can sign a recovery version")
}

// maxForks limits the forks that Forks remembers.
const maxForks = 1000

// Forks remembers the reported forks, so that each is logged once. The zero value is ready to use.
type Forks struct {
	mu   sync.Mutex
	seen map[string]bool
}

// First reports whether err is a ROSTER_FORK that was not reported before.
func (f *Forks) First(err error) bool {
	if writ.CodeOf(err) != writ.CodeRosterFork {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	what := writ.AsError(err).Message // contains the version and both digests
	if f.seen[what] || len(f.seen) >= maxForks {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	f.seen[what] = true
	return true
}
