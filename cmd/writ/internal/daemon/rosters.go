package daemon

import (
	"crypto/ed25519"
	"time"

	"writ"
	"writ/identity"
)

// ClusterOf returns the cluster of a chain of rosters, "" for an empty chain.
func ClusterOf(signed [][]byte) (writ.ClusterID, error) {
	if len(signed) == 0 {
		return "", nil
	}
	first, err := identity.VerifyRoster(nil, signed[0], time.Time{})
	if err != nil {
		return "", err
	}
	return first.Cluster, nil
}

// PublicKey returns the public half of a key.
func PublicKey(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }
