//go:build !linux

package mycelium

import (
	"context"
	"time"
)

// Run waits until ctx ends: daemons run only on Linux.
func (n *Node) Run(ctx context.Context) error {
	if _, err := n.Address(ctx); err != nil {
		return err
	}
	n.setFault("the overlay's daemon runs only on Linux")
	<-ctx.Done()
	return nil
}

func (n *Node) processInfo(context.Context) (pid int64, since time.Time, version string) { return }
