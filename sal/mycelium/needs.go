package mycelium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"writ/sal/needs"
)

// Needs returns the requirements of the overlay. If they are not met, addresses are the same, but packets do not leave
// the host.
func (n *Node) Needs() []needs.Need {
	const alone = "networks of this node do not reach other nodes"
	return []needs.Need{
		{
			Name: "the program mycelium", Use: alone,
			Fix:  "put mycelium 0.7 or newer on the PATH of the runner: https://github.com/threefoldtech/mycelium/releases",
			Look: needs.Program(n.name(), "0.7"),
		},
		{Name: "tunnels", Use: alone, Fix: "modprobe tun", Look: needs.Openable("/dev/net/tun")},
		{
			Name: "the daemon's port", Use: alone, Fix: "end the other daemon: systemctl disable --now mycelium",
			Look: n.lookPort,
		},
	}
}

// lookPort checks whether another daemon listens on this node's API address. It does not generate a key.
func (n *Node) lookPort(ctx context.Context) (string, error) {
	c := n.Client()
	info, err := c.Info(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "no daemon listens at " + c.URL, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s is not a daemon of mycelium: %w", c.URL, err)
	}
	if _, err := os.Stat(n.keyPath()); err == nil {
		if own, err := n.Subnet(ctx); err == nil && own == info.Subnet {
			return "its daemon answers at " + c.URL, nil
		}
	}
	return "", fmt.Errorf("another daemon listens at %s, with the addresses %s", c.URL, info.Subnet)
}
