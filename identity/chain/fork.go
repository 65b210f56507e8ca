package chain

import (
	"sync"

	"writ"
)

// CheckSeen compares the roster that a signer has seen with the same version in c. If the digests differ, or if a
// recovery in c skipped the version, it returns ROSTER_FORK: the signer has seen a roster of another chain. Versions
// after the newest, and versions before the start of the verified chain, are unknown and pass.
func (c Chain) CheckSeen(version int, digest writ.Digest) error {
	if digest.IsZero() || version > c.newest.Version {
		return nil
	}
	have := c.newest
	for have != nil && have.Version > version {
		have = have.before
	}
	if have == nil || have.Version == version && have.Digest == digest {
		return nil
	}
	here := "the chain of rosters here has no such version"
	if have.Version == version {
		here = "here it has the digest " + have.Digest.String()
	}
	return writ.Errorf(writ.CodeRosterFork, "the signer has seen version %d of the roster with the digest %s; %s",
		version, digest, here).
		WithHint("keep both rosters as evidence and inform the root operators; the root can sign a recovery version")
}

// maxForks limits the forks that Forks remembers.
const maxForks = 1000

// Forks remembers the reported forks, so that each is logged once. The zero value is ready to use.
type Forks struct {
	mu   sync.Mutex
	seen map[string]bool
}

// First reports whether err is a ROSTER_FORK that was not reported before. After maxForks different forks it returns
// false.
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
