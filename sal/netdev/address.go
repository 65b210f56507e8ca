package netdev

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// marker follows the host's /64 in all addresses of networks. Other addresses in this /64, like the host's own, almost
// never contain it.
const marker = 0xff0f

// hash returns the source of derived numbers and addresses.
func hash(parts ...string) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p + "\x00"))
	}
	return h.Sum(nil)
}

// rangeOf returns the range of a network within the host's range.
func rangeOf(host netip.Prefix, index uint16) netip.Prefix {
	a := host.Addr().As16()
	binary.BigEndian.PutUint16(a[8:], marker)
	binary.BigEndian.PutUint16(a[10:], index)
	clear(a[12:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 96)
}

// in returns an address of a range.
func in(network netip.Prefix, host uint32) netip.Addr {
	a := network.Addr().As16()
	binary.BigEndian.PutUint32(a[12:], host)
	return netip.AddrFrom16(a)
}

// gatewayHost is the host part of the gateway's address.
const gatewayHost = 1

// macOf returns the hardware address of a port: a unicast address that no vendor uses.
func macOf(owner, network writ.UID) net.HardwareAddr {
	mac := slices.Clone(hash("mac", string(owner), string(network))[:6])
	mac[0] = mac[0]&^1 | 2
	return mac
}

// freeIndex returns the number of a new network: the one derived from its name, or the next free one.
func freeIndex(resource writ.ResourceID, taken func(uint16) bool) (uint16, error) {
	sum := hash("network", string(resource.Project), resource.Name)
	first := binary.BigEndian.Uint16(sum)
	for i := range uint32(1 << 16) {
		if index := first + uint16(i); !taken(index) {
			return index, nil
		}
	}
	return 0, writ.Errorf(writ.CodeQuotaExceeded, "this node has 65536 networks, the maximum")
}

// freeHost returns the host part of a new port's address.
func freeHost(owner writ.UID, taken func(uint32) bool) uint32 {
	sum := hash("port", string(owner))
	for host := binary.BigEndian.Uint32(sum); ; host++ {
		if host > gatewayHost && host != 1<<32-1 && !taken(host) {
			return host
		}
	}
}

// freeIPv4 returns the address of a new port in a network's IPv4 range. The first address is the router's.
func freeIPv4(
	network writ.ResourceID, prefix netip.Prefix, owner writ.UID, taken func(netip.Addr) bool,
) (netip.Addr, error) {
	first := binary.BigEndian.Uint32(prefix.Addr().AsSlice())
	room := uint32(1)<<(32-prefix.Bits()) - 3 // without the addresses of the range, the router and broadcast
	offset := binary.BigEndian.Uint32(hash("port4", string(owner))) % room
	for i := range room {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], first+2+(offset+i)%room)
		if addr := netip.AddrFrom4(a); !taken(addr) {
			return addr, nil
		}
	}
	return netip.Addr{}, writ.Errorf(writ.CodeQuotaExceeded, "all %d addresses of %s on %s are in use", room, prefix,
		network).
		WithHint("delete unused resources on the network, or create a network with a larger range")
}

// router returns the host's address in an IPv4 range, or the zero value without a range.
func router(prefix netip.Prefix) netip.Addr {
	if !prefix.IsValid() {
		return netip.Addr{}
	}
	return prefix.Addr().Next()
}

// ipv4 returns the IPv4 range of a network, or the zero value.
func ipv4(r *sal.Record[network]) netip.Prefix {
	text, _ := r.Spec["ipv4"].(string)
	if text == "" {
		return netip.Prefix{}
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// checkRules returns an error for contradictory rules.
func checkRules(rules []catalog.NetworkRule) error {
	for i, r := range rules {
		if r.Protocol == "icmp" && len(r.Ports) > 0 {
			return writ.Errorf(writ.CodeArgumentsInvalid, "rules[%d] has ports for icmp, which has no ports", i).
				WithHint("omit ports, or use tcp or udp")
		}
	}
	return nil
}

// merged returns sorted ranges that cover the prefixes and do not touch each other, as the kernel requires.
func merged(prefixes []netip.Prefix) (ranges [][2]netip.Addr) {
	sorted := slices.SortedFunc(slices.Values(prefixes),
		func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	for _, p := range sorted {
		from, to := p.Masked().Addr(), last(p)
		if n := len(ranges); n > 0 {
			if end := ranges[n-1][1]; !end.Next().IsValid() || from.Compare(end.Next()) <= 0 {
				if to.Compare(end) > 0 {
					ranges[n-1][1] = to
				}
				continue
			}
		}
		ranges = append(ranges, [2]netip.Addr{from, to})
	}
	return ranges
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(a)*8; bit++ {
		a[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(a)
	return addr
}

// checkSubnet returns an error if a host's range cannot be divided into networks.
func checkSubnet(p netip.Prefix) error {
	if p.Bits() != 64 || !p.Addr().Is6() {
		return fmt.Errorf("the overlay gives %s: %w", p, errNoSubnet)
	}
	return nil
}

var errNoSubnet = errors.New("networks need a /64")
