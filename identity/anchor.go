package identity

import (
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/header"
)

// Anchor leads a process without a roster to the right chain. It holds the cluster and, unless Version is 0, one known
// version of the chain. It rejects any branch of the chain that was signed with stolen keys.
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

// Verify verifies a chain of rosters, version 1 first, and returns the newest. The newest must not have expired at now,
// and the chain must contain the anchor's version. The errors are those of VerifyRosters, ROSTER_TOO_OLD if the chain
// ends before the anchor, and ROSTER_FORK.
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

// Holds returns ROSTER_FORK if the verified chain of r has another roster under the anchor's version. It does not check
// versions that are not in the verified chain.
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
