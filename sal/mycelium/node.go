// Package mycelium connects this host to the overlay network. It manages the host's key, the addresses derived from it,
// and the daemon that carries packets. The package has no operations. It uses the daemon's command line and REST API,
// and does not depend on the networks that use the addresses.
//
// The key is generated before the daemon starts, and only packets to other hosts need the daemon. So a host without
// mycelium also has its addresses and local networks.
//
// Layout below Dir: priv_key.bin, the key; home/, an empty home for the daemon, so that it ignores personal settings;
// mycelium.log, its latest log.
package mycelium

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"

	"writ/sal"
	"writ/sal/needs"
)

// Node is this host in the overlay. It implements sal.Overlay.
type Node struct {
	Options
	Dir string       // required: an absolute path
	Log *slog.Logger // required by Run
	// Netns is the file of the daemon's network namespace. If empty, the daemon runs in the namespace of this process.
	Netns string
	// Outlive keeps the daemon running when Run ends; the next Run adopts it. Otherwise, packets stop whenever the
	// runner stops.
	Outlive bool
	// Step is called before each change to the disk and to processes. Tests use it to stop the node at that point. May be
	// nil.
	Step func(name string)

	making   sync.Mutex   // only one call generates the key
	fault    atomic.Value // string: why no daemon runs
	versions needs.Versions
	inquiry  inquiry
}

// keyPath returns the path of the key, which also identifies the daemon of this node.
func (n *Node) keyPath() string { return filepath.Join(n.Dir, "priv_key.bin") }

// Address returns the host's own address in the overlay.
func (n *Node) Address(ctx context.Context) (netip.Addr, error) {
	n.making.Lock()
	defer n.making.Unlock()
	key, err := LoadKey(n.keyPath(), n.step)
	if err != nil {
		return netip.Addr{}, err
	}
	return Address(key.PublicKey()), ctx.Err()
}

// Subnet returns the range that the overlay routes to this host.
func (n *Node) Subnet(ctx context.Context) (netip.Prefix, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	return Subnet(address), nil
}

var _ sal.Overlay = (*Node)(nil)

// Client returns a client for the daemon, whether it runs or not.
func (n *Node) Client() *Client { return clientIn(n.Netns, n.api()) }

func (n *Node) step(name string) {
	if n.Step != nil {
		n.Step(name)
	}
}
