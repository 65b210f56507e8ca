// Package daemon is the common part of the processes of writ: listeners, stores and their locks, files that a process
// creates only once, metrics and traces. Each process has a package below this folder; together they are the only place
// that chooses stores and drivers. They must not know the command line.
//
// All processes have the same life cycle. New(Config) checks the settings and opens nothing. Run(ctx) serves until ctx
// ends. Config.Ready is called when the process serves.
package daemon

import (
	"crypto/ed25519"
	"runtime"
	"time"

	"writ"
	"writ/identity"
)

// Ease uses at least two threads for Go code. With a single one, a store that waits for its disk in a system call would
// block everything else.
func Ease() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}

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
