package identity

import (
	"math/bits"
	"slices"
	"time"

	"writ"
)

// RosterLink describes a version of a verified chain in a store.
type RosterLink struct {
	Version  int
	Digest   writ.Digest // of the text
	Waypoint bool        // its text is needed to verify later versions
}

// links returns the versions of the chain that are newer than after, oldest first. r itself is marked as a waypoint
// only if a later version needs its text.
func (r *Roster) links(after int) []RosterLink {
	n := 0
	for a := r.asAncestor(); a != nil && a.version > after; a = a.before {
		n++
	}
	links := make([]RosterLink, n)
	unproven := false // the next version has no history, so its verifier needs this text
	for a := r.asAncestor(); n > 0; a = a.before {
		n--
		links[n] = RosterLink{Version: a.version, Digest: a.digest, Waypoint: a.waypoint || unproven}
		unproven = a.unproven
	}
	return links
}

// asAncestor returns r as a member of its own chain.
func (r *Roster) asAncestor() *ancestor {
	digest, _ := r.textDigest() // a verified roster always has one
	return &ancestor{version: r.Version, digest: digest, waypoint: r.waypoint, unproven: r.History.IsZero(), before: r.before}
}

// NewLinks returns the versions that are newer than after, for a store that has all earlier ones. If version after has
// become a waypoint, it is returned again.
func (r *Roster) NewLinks(after int) []RosterLink {
	links := r.links(after - 1)
	if len(links) > 0 && links[0].Version == after && !links[0].Waypoint {
		return links[1:]
	}
	return links
}

// follows sets the waypoints of r, which follows previous. previous is nil for the first roster.
func (r *Roster) follows(previous *Roster) {
	r.waypoint = r.isWaypointAfter(previous)
	if previous != nil {
		r.waypoints = slices.Clip(previous.waypoints)
		if r.History.IsZero() && !previous.waypoint {
			r.waypoints = append(r.waypoints, previous.Version)
		}
	}
	if r.waypoint {
		r.waypoints = append(r.waypoints, r.Version)
	}
}

// PageStart returns the version after which the page for a caller with version after starts. It rounds after down, so
// that a server builds few pages for many callers. The caller gets fewer digests that it already has than digests that
// it lacks, and no waypoint twice.
func (r *Roster) PageStart(after int) int {
	if after >= r.Version {
		return r.Version
	}
	last, next := 0, r.Version
	at, _ := slices.BinarySearch(r.waypoints, after+1)
	if at < len(r.waypoints) {
		next = r.waypoints[at]
	}
	if at > 0 {
		last = r.waypoints[at-1]
	}
	distance := 1 << bits.Len(uint(next-after-1)) // a power of two
	return max(last, next-distance)
}

// find returns a version of the chain that leads to r, or nil.
func (r *Roster) find(version int) *ancestor {
	a := r.asAncestor()
	for a != nil && a.version > version {
		a = a.before
	}
	if a == nil || a.version != version {
		return nil
	}
	return a
}

// Earlier parses a signed roster of the chain that leads to r. The error is ROSTER_INVALID if the text is not part of
// the chain.
func (r *Roster) Earlier(signed []byte) (*Roster, error) {
	text, _, err := splitAll(SignedRoster(signed))
	if err != nil {
		return nil, err
	}
	earlier, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	at := r.find(earlier.Version)
	if at == nil || at.digest != earlier.digest {
		return nil, badRoster("the chain that leads to version %d has another version %d", r.Version, earlier.Version)
	}
	earlier.before, earlier.waypoint = at.before, at.waypoint
	return earlier, nil
}

// Has reports whether the roster of a link is part of the chain that leads to r.
func (r *Roster) Has(link []byte) bool {
	version, _, err := LinkVersions(link)
	if err != nil || version > r.Version {
		return false
	}
	text, _, err := splitAll(SignedRoster(link))
	at := r.find(version)
	return err == nil && at != nil && at.digest == writ.DigestOf(text)
}

// Path returns one page of the links that lead from version after to r: all waypoints and r itself. text returns the
// signed roster of a version. All versions with the same PageStart have the same page.
func (r *Roster) Path(after int, text func(version int) ([]byte, error)) ([][]byte, error) {
	return r.path(r.PageStart(after), RosterPage, text)
}

// PathWithin is Path for one caller, with another page size in bytes.
func (r *Roster) PathWithin(after, size int, text func(version int) ([]byte, error)) ([][]byte, error) {
	return r.path(after, size, text)
}

// WholePath returns the links that lead to r from version 1.
func (r *Roster) WholePath(text func(version int) ([]byte, error)) ([][]byte, error) {
	return r.path(0, 0, text)
}

// path returns the links after a version. It ends with the link that reaches size bytes; 0 means all.
func (r *Roster) path(after, size int, text func(version int) ([]byte, error)) ([][]byte, error) {
	path := [][]byte{}
	var skipped []writ.Digest
	total := 0
	for _, l := range r.links(after) {
		if !l.Waypoint && l.Version != r.Version {
			skipped = append(skipped, l.Digest)
			continue
		}
		signed, err := text(l.Version)
		if err != nil {
			return nil, err
		}
		path = append(path, newLink(skipped, SignedRoster(signed)))
		skipped = nil
		if total += len(path[len(path)-1]); size > 0 && total >= size {
			break
		}
	}
	return path, nil
}

// LoadRosters verifies a stored chain, version 1 first, and returns the newest roster, which may have expired. It reads
// only the texts of waypoints and of the newest version, by calling text.
func LoadRosters(pin writ.ClusterID, links []RosterLink, text func(version int) ([]byte, error)) (*Roster, error) {
	return FollowRosters(pin, nil, links, text)
}

// FollowRosters is LoadRosters for versions that follow last. Without links it returns last.
func FollowRosters(pin writ.ClusterID, last *Roster, links []RosterLink, text func(version int) ([]byte, error)) (*Roster, error) {
	var skipped []writ.Digest
	for i, l := range links {
		if !l.Waypoint && i < len(links)-1 {
			skipped = append(skipped, l.Digest)
			continue
		}
		signed, err := text(l.Version)
		if err != nil {
			return nil, err
		}
		if last, err = follow(pin, last, newLink(skipped, signed), time.Time{}); err != nil {
			return nil, err
		}
		skipped = nil
		if last.Version != l.Version {
			return nil, badRoster("the store has version %d in the place of version %d", last.Version, l.Version)
		}
	}
	return last, nil
}
