package identity

import (
	"sync"

	"writ"
)

// ancestor is an earlier version of a roster in the chain that was verified.
type ancestor struct {
	version  int
	digest   writ.Digest
	waypoint bool // see Roster.isWaypointAfter
	unproven bool // it names no history
	before   *ancestor
}

// checkSeen compares the roster that a signer has seen with the version of that number in the chain that leads to r. Another digest (ROSTER_FORK)
// means that two rosters of one version were signed. Versions after r, and those before the first that was verified here, are not known and pass.
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
		WithHint("keep both rosters as evidence and tell the root operators; the root can sign a recovery version")
}

// maxForks bounds the forks that Forks remembers.
const maxForks = 1000

// Forks remembers which forks of the roster were reported, so that each is logged once. The zero value is ready.
type Forks struct {
	mu   sync.Mutex
	seen map[string]bool
}

// First reports whether err is a ROSTER_FORK that comes for the first time.
func (f *Forks) First(err error) bool {
	if writ.CodeOf(err) != writ.CodeRosterFork {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	what := writ.AsError(err).Message // it holds the version and both digests
	if f.seen[what] || len(f.seen) >= maxForks {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	f.seen[what] = true
	return true
}
