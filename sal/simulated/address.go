package simulated

import (
	"crypto/sha256"
	"net"
	"net/netip"

	"writ"
)

// Addresses are derived from names, so every run of a script gets the same addresses. They have the form of mycelium
// addresses: networks are /64 ranges of 400::/7, and interface addresses end with ff0f and six bytes of a hash.

// mtu is the MTU of mycelium in bytes.
const mtu = 1400

// hashOf returns the input for derived addresses.
func hashOf(r writ.ResourceID) [sha256.Size]byte {
	return sha256.Sum256([]byte("simulated\x00" + string(r.Project) + "\x00" + string(r.Kind) + "\x00" + r.Name))
}

func subnetOf(network writ.ResourceID) netip.Prefix {
	sum := hashOf(network)
	var a [16]byte
	copy(a[:8], sum[:8])
	a[0] = 0x04 | sum[0]&1
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}

func gatewayOf(network writ.ResourceID) netip.Addr {
	a := subnetOf(network).Addr().As16()
	a[15] = 1
	return netip.AddrFrom16(a)
}

// addressOn returns the address of a resource on a network.
func addressOn(network, r writ.ResourceID) netip.Addr {
	a := subnetOf(network).Addr().As16()
	sum := hashOf(r)
	a[8], a[9] = 0xff, 0x0f
	copy(a[10:], sum[:6])
	return netip.AddrFrom16(a)
}

// addressesOn returns the addresses of a resource on its networks.
func addressesOn(networks []writ.Ref, r writ.ResourceID) []string {
	var all []string
	for _, n := range networks {
		all = append(all, addressOn(writ.ResourceID{Project: r.Project, Kind: n.Kind, Name: n.Name}, r).String())
	}
	return all
}

// first returns the first text, or "".
func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

// macOf returns a locally administered hardware address.
func macOf(r writ.ResourceID) string {
	sum := hashOf(r)
	return net.HardwareAddr{0x02, sum[6], sum[7], sum[8], sum[9], sum[10]}.String()
}
