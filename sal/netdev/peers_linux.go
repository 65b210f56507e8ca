package netdev

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
)

// requireFreeOfPeers returns RESOURCE_CONFLICT if the IPv4 range of a new network contains a host that this node needs.
// This is a nameserver, or the other end of a TCP connection, such as the supervisor or Redis. The network would cut
// the node off from that host. If only the default route leads to the host, overlap does not find this.
func (n *networks) requireFreeOfPeers(r *sal.Record[network], want netip.Prefix) error {
	servers := HostNameservers()
	if n.nameservers != nil {
		servers = append(servers, n.nameservers()...)
	}
	switch {
	case slices.ContainsFunc(servers, want.Contains):
		return needed(r, want, "a nameserver of this node")
	case slices.ContainsFunc(connected(n.links.kernel), want.Contains):
		return needed(r, want, "a host that this node is connected to")
	}
	return nil
}

func needed(r *sal.Record[network], want netip.Prefix, what string) error {
	return writ.Errorf(writ.CodeResourceConflict, "%s cannot use %s: it contains %s", r.Resource, want, what).
		WithHint("use another range")
}

// connected returns the remote addresses of the open TCP connections of this network namespace. It returns none if the
// kernel cannot list them.
func connected(kernel *netlink.Handle) (all []netip.Addr) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := kernel.SocketDiagTCP(family)
		if err != nil {
			continue
		}
		for _, s := range sockets {
			if other, ok := netip.AddrFromSlice(s.ID.Destination); ok && (s.State == unix.BPF_TCP_ESTABLISHED || s.State == unix.BPF_TCP_SYN_SENT) {
				all = append(all, other.Unmap())
			}
		}
	}
	return all
}
