// Package reach classifies addresses: servers on the internet, this host, or private networks. It does not depend on
// the purpose of a connection.
package reach

import (
	"net"
	"net/netip"
	"slices"
)

// special lists the parts of the public address space that do not lead to servers on the internet (the IANA registries
// of special-purpose addresses), and an address that leads to the host of a virtual machine.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32",                                     // the agent on Azure hosts
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", // Teredo and other protocols, documentation, 6to4
)

var (
	global = netip.MustParsePrefix("2000::/3")     // all assigned global unicast IPv6 addresses
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // the last 32 bits are an IPv4 address
)

func prefixes(all ...string) (list []netip.Prefix) {
	for _, text := range all {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Public reports whether an address can belong to a server on the internet.
func Public(a netip.Addr) bool {
	a = translated(a)
	if a.Is6() && !global.Contains(a) {
		return false
	}
	return a.IsValid() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Plain returns the canonical form of an address: without a zone, and IPv4 instead of IPv4-mapped IPv6.
func Plain(a netip.Addr) netip.Addr { return a.WithZone("").Unmap() }

// translated returns the destination of a packet to an address: Plain, and for NAT64 the IPv4 address.
func translated(a netip.Addr) netip.Addr {
	a = Plain(a)
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// OfThisHost reports whether an address belongs to this host. This matters because local servers may trust local
// clients.
func OfThisHost(a netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown, so assume the worst
	}
	a = translated(a)
	return slices.ContainsFunc(own, func(o net.Addr) bool {
		p, err := netip.ParsePrefix(o.String())
		return err == nil && Plain(p.Addr()) == a
	})
}

// Allowed reports whether requests to an address are permitted: the address is in ranges, or is Public and not of this
// host.
func Allowed(a netip.Addr, ranges []netip.Prefix) bool {
	a = Plain(a)
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) }) || Public(a) && !OfThisHost(a)
}

// Loopback reports whether a host (a name or address without a port) is a loopback address of this machine.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && Plain(a).IsLoopback()
}
