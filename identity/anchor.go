package identity

import (
	"strconv"
	"strings"
	"time"

	"writ"
)

// Anchor is what leads somebody who has no roster to the right ones: the cluster and, unless Version is 0, one version of the chain that somebody
// has seen before. With it nobody can present a branch of the chain that was signed with stolen keys.
type Anchor struct {
	Cluster writ.ClusterID
	Version int
	Digest  writ.Digest // of the text of that version
}

// AnchorOf returns the anchor that leads through a roster.
func AnchorOf(r *Roster) (Anchor, error) {
	digest, err := r.Digest()
	return Anchor{Cluster: r.Cluster, Version: r.Version, Digest: digest}, err
}

// Verify verifies a chain of rosters, version 1 first, and returns the newest. It must not have expired at now, and the chain must lead through the
// anchor. The errors: those of VerifyRosters; ROSTER_TOO_OLD if the chain ends before the anchor; ROSTER_FORK.
func (a Anchor) Verify(signed [][]byte, now time.Time) (*Roster, error) {
	roster, err := VerifyRosters(a.Cluster, signed, now)
	if err != nil {
		return nil, err
	}
	if roster.Version < a.Version {
		return nil, writ.Errorf(writ.CodeRosterTooOld, "the server has rosters up to version %d, and version %d is known to exist", roster.Version, a.Version).
			WithHint("it was restored from an old backup, or hides a version; tell its operator")
	}
	if a.Version == 0 {
		return roster, nil
	}
	return roster, roster.checkSeen(a.Version, a.Digest)
}

// Holds returns ROSTER_FORK if the chain that was verified up to a roster has another version of the anchor's number. It does not check rosters before that.
func (a Anchor) Holds(r *Roster) error {
	if a.Version == 0 {
		return nil
	}
	return r.checkSeen(a.Version, a.Digest)
}

// String writes the version and digest as "3.6f1c…", "" if there is none. The cluster is not part of it.
func (a Anchor) String() string {
	if a.Version == 0 {
		return ""
	}
	return strconv.Itoa(a.Version) + "." + a.Digest.String()
}

// ParseAnchor reads what String wrote, for a cluster.
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
		return a, writ.Errorf(writ.CodeUsage, "%q is not the version and digest of a roster", clip(s)).WithHint("copy it whole from `writ context export`")
	}
	return a, nil
}
