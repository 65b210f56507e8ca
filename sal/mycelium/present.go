package mycelium

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"writ"
	"writ/internal/netns"
)

// requirePresence marks the overlay as not connected if no interface has the node's address, because then no packet
// leaves the host. Connections to peers can stay alive meanwhile, because they use IPv4.
func requirePresence(o *writ.Overlay, namespace string, address netip.Addr) {
	if held, err := hasAddress(namespace, address); err != nil || held {
		return
	}
	o.Connected = false
	o.Detail = fmt.Sprintf("no interface has the address %s: networks of this node do not reach other nodes. "+
		"If net.ipv6.conf.all.disable_ipv6 is 1, set it to 0. Then run `kill %d`: the node starts the daemon again",
		address, o.PID)
}

// hasAddress reports whether an interface in a network namespace has an address. An empty namespace means the namespace
// of this process. The daemon sets the address of its interface only when it starts.
func hasAddress(namespace string, address netip.Addr) (bool, error) {
	if namespace != "" {
		back, err := netns.Enter(namespace)
		if err != nil {
			return false, err
		}
		defer back()
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		p, ok := a.(*net.IPNet)
		return ok && p.IP.Equal(address.AsSlice())
	}), nil
}
