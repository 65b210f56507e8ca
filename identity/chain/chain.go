// Package chain holds the versions that lead to a roster: their digests, the history that proves them, and the links in
// which rosters are sent and stored. A link is a signed roster. If it does not directly follow the reader's version, it
// also has the digests of the versions that it skips. A verifier needs the full texts of only a few versions, the
// waypoints. The package reads only header lines of rosters. Package identity verifies the signatures and decides which
// version is a waypoint.
package chain

import (
	"math/bits"
	"slices"

	"writ"
)

// Entry describes a version of a verified chain in a store.
type Entry struct {
	Version  int
	Digest   writ.Digest // of the text
	Waypoint bool        // its text is needed to verify later versions
}

// Chain holds all known versions from the start of a roster's history to the roster itself, after verification. It is
// immutable. The zero value has no version.
type Chain struct {
	newest    *element
	waypoints []int // ascending
}

// element is a version in a chain.
type element struct {
	Entry
	unproven bool // the roster names no history
	before   *element
}

// New returns a chain of one version. proven means that the roster names its history.
func New(e Entry, proven bool) Chain {
	c := Chain{newest: &element{Entry: e, unproven: !proven}}
	if e.Waypoint {
		c.waypoints = []int{e.Version}
	}
	return c
}

// Then returns c extended by the skipped versions and by e, the version after them.
func (c Chain) Then(skipped []writ.Digest, e Entry, proven bool) Chain {
	before := c.newest
	for i, digest := range skipped {
		before = &element{Entry: Entry{Version: c.newest.Version + 1 + i, Digest: digest}, before: before}
	}
	next := Chain{&element{e, !proven, before}, slices.Clip(c.waypoints)}
	if !proven && !c.newest.Waypoint {
		next.waypoints = append(next.waypoints, c.newest.Version)
	}
	if e.Waypoint {
		next.waypoints = append(next.waypoints, e.Version)
	}
	return next
}

// At returns the part of c that ends with a version, without the index of waypoints. ok is false for an unknown
// version.
func (c Chain) At(version int) (part Chain, e Entry, ok bool) {
	l := c.newest
	for l != nil && l.Version > version {
		l = l.before
	}
	if l == nil || l.Version != version {
		return Chain{}, Entry{}, false
	}
	return Chain{newest: l}, l.Entry, true
}

// IsEmpty reports whether c has no version.
func (c Chain) IsEmpty() bool { return c.newest == nil }

// Entries returns the versions that are newer than version `after`, for a store that has all earlier ones. If version
// `after` has become a waypoint, it is returned again.
func (c Chain) Entries(after int) []Entry {
	entries := c.since(after - 1)
	if len(entries) > 0 && entries[0].Version == after && !entries[0].Waypoint {
		return entries[1:]
	}
	return entries
}

// since returns the versions that are newer than version `after`, oldest first. The newest is marked as a waypoint only
// if a later version needs its text.
func (c Chain) since(after int) []Entry {
	n := 0
	for l := c.newest; l != nil && l.Version > after; l = l.before {
		n++
	}
	entries := make([]Entry, n)
	unproven := false // the next version has no history, so its verifier needs this text
	for l := c.newest; n > 0; l = l.before {
		n--
		entries[n] = l.Entry
		entries[n].Waypoint = l.Waypoint || unproven
		unproven = l.unproven
	}
	return entries
}

// PageStart returns the start of the page for a caller whose newest version is `after`. The page contains the versions
// after the returned version. It rounds `after` down, so that a server builds few pages for many callers. The caller
// already has less than half of the digests on the page, and none of the waypoints.
func (c Chain) PageStart(after int) int {
	newest := c.newest.Version
	if after >= newest {
		return newest
	}
	last, next := 0, newest
	at, _ := slices.BinarySearch(c.waypoints, after+1)
	if at < len(c.waypoints) {
		next = c.waypoints[at]
	}
	if at > 0 {
		last = c.waypoints[at-1]
	}
	distance := 1 << bits.Len(uint(next-after-1)) // a power of two
	return max(last, next-distance)
}

// Path returns one page of the links that lead from version `after` to the newest: all waypoints and the newest itself.
// text returns the signed roster of a version. All versions with the same PageStart have the same page.
func (c Chain) Path(after int, text func(version int) ([]byte, error)) ([][]byte, error) {
	return c.PathWithin(c.PageStart(after), PageSize, text)
}

// WholePath returns the links that lead to the newest version from version 1.
func (c Chain) WholePath(text func(version int) ([]byte, error)) ([][]byte, error) {
	return c.PathWithin(0, 0, text)
}

// PathWithin returns the links after a version, without rounding. It stops when the returned links together have at
// least size bytes. If size is 0, it returns all links.
func (c Chain) PathWithin(after, size int, text func(version int) ([]byte, error)) ([][]byte, error) {
	path := [][]byte{}
	var skipped []writ.Digest
	total := 0
	for _, e := range c.since(after) {
		if !e.Waypoint && e.Version != c.newest.Version {
			skipped = append(skipped, e.Digest)
			continue
		}
		signed, err := text(e.Version)
		if err != nil {
			return nil, err
		}
		path = append(path, Join(skipped, Signed(signed)))
		skipped = nil
		if total += len(path[len(path)-1]); size > 0 && total >= size {
			break
		}
	}
	return path, nil
}

// Milestone limits the number of versions that one link may skip: every version divisible by Milestone is a waypoint.
const Milestone = 4096

// History returns the history of a version. digests lists the digests of the versions before it, oldest first, and
// history is the history of the oldest of these versions. A history is a hash chain over the digests of all earlier
// versions, so it proves them without their texts.
func History(history writ.Digest, digests ...writ.Digest) writ.Digest {
	for _, digest := range digests {
		history = writ.DigestOf(slices.Concat([]byte("writ-roster-history-v1\x00"), history[:], digest[:]))
	}
	return history
}
