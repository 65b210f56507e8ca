package netdev

import (
	"fmt"
	"net/netip"
	"slices"

	"writ"
	"writ/sal"
)

// planPorts returns the ports that an owner will have, in the order of its networks. drop lists its present ports on
// other networks. others are the other owners on this node.
func planPorts(
	r *sal.Record[holding], on []*sal.Record[network], others []*sal.Record[holding],
) (ports, drop []port, err error) {
	var keep []port
	for _, p := range r.Own.Ports {
		if slices.ContainsFunc(on, func(n *sal.Record[network]) bool { return n.UID == p.UID }) {
			keep = append(keep, p)
		} else {
			drop = append(drop, p)
		}
	}
	for _, n := range on {
		if i := slices.IndexFunc(keep, func(p port) bool { return p.UID == n.UID }); i >= 0 {
			ports = append(ports, keep[i])
			continue
		}
		p, err := newPort(r.UID, n, others)
		if err != nil {
			return nil, nil, err
		}
		for slices.ContainsFunc(slices.Concat(keep, ports), func(other port) bool { return other.Number == p.Number }) {
			p.Number++
		}
		ports = append(ports, p)
	}
	return ports, drop, nil
}

// newPort returns a port with free addresses on a network.
func newPort(owner writ.UID, n *sal.Record[network], others []*sal.Record[holding]) (p port, err error) {
	var neighbours []port
	for _, o := range others {
		for _, p := range o.Own.Ports {
			if p.UID == n.UID {
				neighbours = append(neighbours, p)
			}
		}
	}
	p = port{Network: n.Resource, UID: n.UID}
	p.Host = freeHost(owner, func(host uint32) bool {
		return slices.ContainsFunc(neighbours, func(other port) bool { return other.Host == host })
	})
	if v4 := ipv4(n); v4.IsValid() {
		p.IPv4, err = freeIPv4(n.Resource, v4, owner, func(a netip.Addr) bool {
			return slices.ContainsFunc(neighbours, func(other port) bool { return other.IPv4 == a })
		})
	}
	return p, err
}

// describe returns a port in the form that its owner gets. host is the host's range in the overlay.
func describe(host netip.Prefix, n *sal.Record[network], p port, r *sal.Record[holding]) sal.Port {
	v6 := rangeOf(host, n.Own.Index)
	described := sal.Port{
		Network: n.Resource,
		Device:  device(r.UID, p),
		MAC:     macOf(r.UID, p.UID),
		IPv6:    netip.PrefixFrom(in(v6, p.Host), v6.Bits()),
		Gateway: in(v6, gatewayHost),
		MTU:     MTU,
	}
	if r.Own.Namespace {
		described.Device = fmt.Sprintf("eth%d", p.Number)
	}
	if v4 := ipv4(n); v4.IsValid() {
		described.IPv4, described.Router = netip.PrefixFrom(p.IPv4, v4.Bits()), router(v4)
	}
	return described
}

// devices returns the names of all devices of an owner on the host.
func (h holding) devices(owner writ.UID) []string {
	var all []string
	for _, p := range h.Ports {
		all = append(all, device(owner, p))
	}
	if h.Link != nil {
		all = append(all, linkDevice(owner))
	}
	return all
}

// device returns the name of a port's device on the host.
func device(owner writ.UID, p port) string {
	return fmt.Sprintf("%s-%d", ownerID(owner).HostName(), p.Number)
}
