package identity

import (
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/chain"
	"writ/identity/header"
)

// RosterChain is a verified roster with the links that prove it from version 1. The zero value is empty.
type RosterChain struct {
	Newest *Roster
	Links  [][]byte
}

// Extend verifies links that follow the newest roster, and returns the extended chain. The chain keeps the texts of
// waypoints and of the newest version, and only the digests of other versions. It skips links that the chain already
// has. The resulting newest roster must not have expired at `now`; the zero time disables this check.
func (c RosterChain) Extend(pin writ.ClusterID, links [][]byte, now time.Time) (RosterChain, error) {
	newest := c.Newest
	if newest == nil && len(links) == 0 {
		return c, badRoster("the chain is empty")
	}
	texts := make(map[int][]byte)
	for _, link := range c.Links {
		if version, _, err := chain.Versions(link); err == nil {
			texts[version] = link
		}
	}
	for _, link := range links {
		if newest != nil && newest.Has(link) {
			continue
		}
		next, err := follow(pin, newest, link, time.Time{})
		if err != nil {
			return c, err
		}
		newest = next
		texts[next.Version] = link
	}
	if err := notExpired(newest, now); err != nil || newest == c.Newest {
		return c, err
	}
	path, err := newest.Chain().WholePath(func(version int) ([]byte, error) {
		if texts[version] == nil {
			return nil, badRoster("the text of version %d is missing", version)
		}
		return texts[version], nil
	})
	return RosterChain{newest, path}, err
}

// VerifyRosters verifies a chain of links, version 1 first, against the pin of a join token. It returns the newest
// roster, which must not have expired at `now`. Versions that a recovery skips may be missing.
func VerifyRosters(pin writ.ClusterID, links [][]byte, now time.Time) (*Roster, error) {
	if len(links) == 0 {
		return nil, badRoster("the chain is empty")
	}
	var last *Roster
	for i, link := range links {
		at := time.Time{} // only the newest must still be valid
		if i == len(links)-1 {
			at = now
		}
		next, err := follow(pin, last, link, at)
		if err != nil {
			return nil, err
		}
		last = next
	}
	return last, nil
}

// follow verifies the next link of a chain that starts at the pin.
func follow(pin writ.ClusterID, last *Roster, link []byte, now time.Time) (*Roster, error) {
	next, err := VerifyRoster(last, link, now)
	if err != nil {
		return nil, err
	}
	if next.Cluster != pin {
		return nil, writ.Errorf(writ.CodeWrongCluster,
			"the roster belongs to the cluster %s, the pin names %s", next.Cluster, pin).
			WithHint("check the address, or ask for a token of the right cluster")
	}
	return next, nil
}

// LoadRosters verifies a stored chain, version 1 first, and returns the newest roster, which may have expired. It reads
// only the texts of waypoints and of the newest version, by calling text.
func LoadRosters(pin writ.ClusterID, entries []chain.Entry, text func(version int) ([]byte, error)) (*Roster, error) {
	return FollowRosters(pin, nil, entries, text)
}

// FollowRosters is LoadRosters for versions that follow the roster `last`. Without entries it returns `last`.
func FollowRosters(
	pin writ.ClusterID, last *Roster, entries []chain.Entry, text func(version int) ([]byte, error),
) (*Roster, error) {
	var skipped []writ.Digest
	for i, e := range entries {
		if !e.Waypoint && i < len(entries)-1 {
			skipped = append(skipped, e.Digest)
			continue
		}
		signed, err := text(e.Version)
		if err != nil {
			return nil, err
		}
		if last, err = follow(pin, last, chain.Join(skipped, signed), time.Time{}); err != nil {
			return nil, err
		}
		skipped = nil
		if last.Version != e.Version {
			return nil, badRoster("the store has version %d in the place of version %d", last.Version, e.Version)
		}
	}
	return last, nil
}

// Anchor identifies the chain of rosters that a process without a roster must accept. It holds the cluster and, unless
// Version is 0, one known version of the chain. A chain without that version is rejected, even if it was signed with
// stolen keys of the cluster.
type Anchor struct {
	Cluster writ.ClusterID
	Version int
	Digest  writ.Digest // digest of the version's text
}

// AnchorOf returns the anchor for a roster.
func AnchorOf(r *Roster) (Anchor, error) {
	digest, err := r.Digest()
	return Anchor{Cluster: r.Cluster, Version: r.Version, Digest: digest}, err
}

// Verify verifies a chain of rosters, version 1 first, and returns the newest. The newest must not have expired at
// `now`, and the chain must contain the anchor's version. In addition to the errors of VerifyRosters, it returns
// ROSTER_TOO_OLD if the chain ends before the anchor, and ROSTER_FORK if it has another roster under that version.
func (a Anchor) Verify(signed [][]byte, now time.Time) (*Roster, error) {
	roster, err := VerifyRosters(a.Cluster, signed, now)
	if err != nil {
		return nil, err
	}
	if roster.Version < a.Version {
		return nil, writ.Errorf(writ.CodeRosterTooOld,
			"the server has rosters up to version %d, and version %d is known to exist", roster.Version, a.Version).
			WithHint("it was restored from an old backup, or hides a version: inform its operator")
	}
	if a.Version == 0 {
		return roster, nil
	}
	return roster, roster.Chain().CheckSeen(a.Version, a.Digest)
}

// Holds returns ROSTER_FORK if the verified chain of r has another roster under the anchor's version. It also returns
// ROSTER_FORK if a recovery skipped that version. It returns nil for a version outside the verified chain.
func (a Anchor) Holds(r *Roster) error {
	if a.Version == 0 {
		return nil
	}
	return r.Chain().CheckSeen(a.Version, a.Digest)
}

// String formats the version and the digest as "3.6f1c…", or "" without a version. It omits the cluster.
func (a Anchor) String() string {
	if a.Version == 0 {
		return ""
	}
	return strconv.Itoa(a.Version) + "." + a.Digest.String()
}

// ParseAnchor parses the output of String for a cluster.
func ParseAnchor(cluster writ.ClusterID, s string) (Anchor, error) {
	a := Anchor{Cluster: cluster}
	if s == "" {
		return a, nil
	}
	version, digest, _ := strings.Cut(s, ".")
	var err error
	if a.Version, err = strconv.Atoi(version); err == nil {
		a.Digest, err = writ.ParseDigest(digest)
	}
	if err != nil || a.String() != s || a.Version < 1 || a.Version > maxRosterVersion {
		return a, writ.Errorf(writ.CodeUsage, "%q is not the version and digest of a roster", header.Clip(s)).
			WithHint("copy it whole from `writ context export`")
	}
	return a, nil
}
