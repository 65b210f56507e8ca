//go:build !linux

package mycelium

import (
	"context"
	"time"

	"writ/sal/needs"
)

// Run waits until ctx ends: daemons run only on Linux.
func (n *Node) Run(ctx context.Context) error {
	if _, err := n.Address(ctx); err != nil {
		return err
	}
	n.fault.Store("the overlay's daemon runs only on Linux")
	<-ctx.Done()
	return nil
}

func daemonInfo(context.Context, string, string, *needs.Versions) (pid int64, since time.Time, version string) {
	return
}
