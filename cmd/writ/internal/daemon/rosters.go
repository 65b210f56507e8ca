package daemon

import (
	"time"

	"writ"
	"writ/identity"
)

// clusterOf returns the cluster of a chain of rosters, "" for an empty chain.
func clusterOf(signed [][]byte) (writ.ClusterID, error) {
	if len(signed) == 0 {
		return "", nil
	}
	first, err := identity.VerifyRoster(nil, signed[0], time.Time{})
	if err != nil {
		return "", err
	}
	return first.Cluster, nil
}
