package firewall

import (
	"slices"

	"writ/sal"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// PortRules returns the rules of a port: permitted senders, and permitted source addresses. network is the bridge, and
// device is the port's device on the host.
func PortRules(network string, p sal.Port, device string) Ruleset {
	into := chain{inet, intoChain(device), nil, []rule{
		{text: "allowed by the network", then: jump(allowChain(network))},
		{text: "other packets", then: drop(deniedCounter(device))},
	}}
	spoofed := func() []expr.Any { return drop(spoofedCounter(device)) }
	only6 := etherType(unix.ETH_P_IPV6)
	from := chain{bridge, fromChain(device), nil, []rule{
		{text: "not from " + p.MAC.String(), match: differs(sourceMAC(), p.MAC), then: spoofed()},
		{text: "router advertisement", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpRouterAdvertisement})), then: spoofed()},
		{text: "redirect", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpRedirect})), then: spoofed()},
		{text: "DHCPv6 server", match: slices.Concat(only6, protocol(unix.IPPROTO_UDP),
			equals(transport(0, 2), []byte{dhcp6Server >> 8, dhcp6Server & 0xff})), then: spoofed()},
		{text: "link-local neighbour", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpNeighbourAdvertisement}), within(transport(8, 16), linkLocal)),
			then: accept()},
		{text: "neighbour other than " + p.IPv6.Addr().String(), match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpNeighbourAdvertisement}),
			differs(transport(8, 16), p.IPv6.Addr().AsSlice())), then: spoofed()},
		{text: "from " + p.IPv6.Addr().String(), match: slices.Concat(only6,
			equals(source6(), p.IPv6.Addr().AsSlice())), then: accept()},
		{text: "from a link-local address", match: slices.Concat(only6, within(source6(), linkLocal)), then: accept()},
		{text: "from the unspecified address", match: slices.Concat(only6, within(source6(), unspecified)), then: accept()},
	}}
	pc := Ruleset{
		name: device,
		entries: []entry{{mapDevice, ifname(device), from.name}, {mapOnto, ifname(device), ontoChain},
			{mapAddress6, p.IPv6.Addr().AsSlice(), into.name}},
		counters: []counter{{inet, deniedCounter(device)}, {bridge, spoofedCounter(device)}},
	}
	if p.IPv4.IsValid() {
		own := p.IPv4.Addr().AsSlice()
		pc.entries = append(pc.entries, entry{mapAddress4, own, into.name})
		only4 := etherType(unix.ETH_P_IP)
		from.rules = append(from.rules,
			rule{text: "DHCP server", match: slices.Concat(only4, protocol(unix.IPPROTO_UDP),
				equals(transport(0, 2), []byte{dhcp4Server >> 8, dhcp4Server & 0xff})), then: spoofed()},
			rule{
				text:  "from " + p.IPv4.Addr().String(),
				match: append(etherType(unix.ETH_P_IP), equals(source4(), own)...), then: accept(),
			},
			rule{
				text:  "arp not from " + p.MAC.String(),
				match: append(etherType(unix.ETH_P_ARP), differs(networkAt(8, 6), p.MAC)...), then: spoofed(),
			},
			rule{
				text:  "arp of " + p.IPv4.Addr().String(),
				match: append(etherType(unix.ETH_P_ARP), equals(networkAt(14, 4), own)...), then: accept(),
			},
			rule{
				text:  "arp without an address",
				match: append(etherType(unix.ETH_P_ARP), equals(networkAt(14, 4), make([]byte, 4))...), then: accept(),
			},
		)
	}
	from.rules = append(from.rules, rule{text: "other packets", then: spoofed()})
	pc.chains = []chain{into, from}
	return pc
}

// ICMPv6 message types of RFC 4861.
const (
	icmpRouterAdvertisement    = 134
	icmpNeighbourAdvertisement = 136
	icmpRedirect               = 137
)

// Ports of DHCP servers. Only this driver assigns addresses.
const (
	dhcp4Server = 67
	dhcp6Server = 547
)
