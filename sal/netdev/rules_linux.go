package netdev

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"writ/sal"
	"writ/sal/catalog"
)

// The maps of our tables: from the name of a device, or an address, to the chain that filters its packets.
const (
	mapInto     = "into"     // inet: outgoing bridge of a routed packet
	mapFrom     = "from"     // inet: incoming bridge of a packet
	mapToHost   = "to-host"  // inet: incoming bridge of a packet for the host itself
	mapAddress6 = "address6" // inet: destination address
	mapAddress4 = "address4"
	mapDevice   = "ports" // bridge: incoming port of a packet
	mapOnto     = "onto"  // bridge: outgoing port of a packet from the host
)

// maps returns all maps with the types of their keys.
func maps() map[string]nftables.SetDatatype {
	return map[string]nftables.SetDatatype{
		mapInto: nftables.TypeIFName, mapFrom: nftables.TypeIFName, mapToHost: nftables.TypeIFName,
		mapAddress6: nftables.TypeIP6Addr, mapAddress4: nftables.TypeIPAddr,
		mapDevice: nftables.TypeIFName, mapOnto: nftables.TypeIFName,
	}
}

// familyOf returns the family of the table that contains a map.
func familyOf(name string) nftables.TableFamily {
	if name == mapDevice || name == mapOnto {
		return nftables.TableFamilyBridge
	}
	return nftables.TableFamilyINet
}

// piece holds the rules of a network or port. It is created and updated as a whole.
type piece struct {
	name     string // of the device; suffix of its chains, prefix of its counters
	chains   []chain
	entries  []entry
	counters []counter
}

type chain struct {
	family nftables.TableFamily
	name   string
	hook   *hook // nil if other chains jump to it
	rules  []rule
}

type hook struct {
	kind     nftables.ChainType
	at       *nftables.ChainHook
	priority *nftables.ChainPriority
}

// entry maps a key of a map to a chain.
type entry struct {
	in    string
	key   []byte
	chain string
}

type counter struct {
	family nftables.TableFamily
	name   string
}

// rule is one rule. Its comment in the kernel is a shortened description with a digest, and identifies the rule in
// comparisons.
type rule struct {
	says  string
	match []expr.Any
	sets  []*set // sets that match uses, in the order of its lookups
	then  []expr.Any
}

// set is a list of values or ranges that belongs to one rule.
type set struct {
	of       nftables.SetDatatype
	elements []nftables.SetElement
	interval bool
}

// comment returns the comment of a rule in the kernel.
func (r rule) comment() string {
	sum := sha256.Sum256([]byte(r.says))
	return fmt.Sprintf("%.80s [%x]", r.says, sum[:4])
}

// Names of the chains of a piece.
func intoChain(device string) string  { return "into-" + device }
func fromChain(device string) string  { return "from-" + device }
func allowChain(device string) string { return "allow-" + device }
func natChain(device string) string   { return "nat-" + device }

// Names of the counters of a piece.
func deniedCounter(device string) string  { return device + "-denied" }
func spoofedCounter(device string) string { return device + "-spoofed" }

// hostChain filters packets from networks to the host itself, and ontoChain packets from the host to networks.
const (
	hostChain = "host"
	ontoChain = "host-onto"
)

// keptCounter counts multicast packets of the host that were kept off the networks.
const keptCounter = "host-kept"

// base returns the rules that all networks share.
func base() piece {
	hooked := func(kind nftables.ChainType, at *nftables.ChainHook, priority *nftables.ChainPriority) *hook {
		return &hook{kind, at, priority}
	}
	inet, bridge := nftables.TableFamilyINet, nftables.TableFamilyBridge
	return piece{
		chains: []chain{
			{inet, hostChain, nil, []rule{
				{says: "replies to the host", match: established(), then: accept()},
				{says: "icmpv6 to the host", match: protocol(unix.IPPROTO_ICMPV6), then: accept()},
				{says: "icmp to the host", match: protocol(unix.IPPROTO_ICMP), then: accept()},
				{says: "nothing else to the host", then: drop("host-denied")},
			}},
			{inet, "forward", hooked(nftables.ChainTypeFilter, nftables.ChainHookForward,
				nftables.ChainPriorityFilter), []rule{
				{says: "from a network", match: jumpBy(expr.MetaKeyIIFNAME, mapFrom)},
				{says: "into a network", match: jumpBy(expr.MetaKeyOIFNAME, mapInto)},
			}},
			{inet, "input", hooked(nftables.ChainTypeFilter, nftables.ChainHookInput,
				nftables.ChainPriorityFilter), []rule{
				{says: "from a network", match: jumpBy(expr.MetaKeyIIFNAME, mapFrom)},
				{says: "from a network to the host", match: jumpBy(expr.MetaKeyIIFNAME, mapToHost)},
			}},
			{bridge, "prerouting", hooked(nftables.ChainTypeFilter, nftables.ChainHookPrerouting,
				nftables.ChainPriorityRef(bridgeBefore)), []rule{
				{says: "from a port", match: jumpBy(expr.MetaKeyIIFNAME, mapDevice)},
			}},
			// Programs of the host that search for peers by multicast on all interfaces, like mycelium and mDNS, would
			// reveal themselves to tenants. Neighbour discovery is not affected: it uses ICMPv6 and ARP.
			{bridge, ontoChain, nil, []rule{
				{says: "the host is not heard by IPv6", match: slices.Concat(etherType(unix.ETH_P_IPV6),
					protocol(unix.IPPROTO_UDP), within(networkAt(24, 16), multicast6)), then: drop(keptCounter)},
				{says: "the host is not heard by IPv4", match: slices.Concat(etherType(unix.ETH_P_IP),
					protocol(unix.IPPROTO_UDP), within(networkAt(16, 4), multicast4)), then: drop(keptCounter)},
			}},
			{bridge, "output", hooked(nftables.ChainTypeFilter, nftables.ChainHookOutput,
				nftables.ChainPriorityRef(bridgeBefore)), []rule{
				{says: "onto a port", match: jumpBy(expr.MetaKeyOIFNAME, mapOnto)},
			}},
		},
		counters: []counter{{inet, "host-denied"}, {bridge, keptCounter}},
	}
}

// bridgeBefore is a priority before all other users of bridge hooks.
const bridgeBefore = -300

// networkPiece returns the rules of a network without its ports.
func networkPiece(device string, v6, v4 netip.Prefix, allowed []catalog.NetworkRule) piece {
	inet := nftables.TableFamilyINet
	into := chain{inet, intoChain(device), nil, []rule{
		{says: "within " + device, match: meta(expr.MetaKeyIIFNAME, ifname(device)), then: accept()},
		{says: "replies", match: established(), then: accept()},
		{says: "by IPv6 address", match: append(family(unix.NFPROTO_IPV6),
			lookupMap(networkAt(24, 16), mapAddress6)...)},
		{says: "by IPv4 address", match: append(family(unix.NFPROTO_IPV4),
			lookupMap(networkAt(16, 4), mapAddress4)...)},
		{says: "to nobody", then: drop(deniedCounter(device))},
	}}
	from := chain{inet, fromChain(device), nil, []rule{
		{says: "from " + v6.String(), match: append(family(unix.NFPROTO_IPV6),
			within(networkAt(8, 16), v6)...), then: done()},
		{says: "from the wire", match: append(family(unix.NFPROTO_IPV6),
			within(networkAt(8, 16), linkLocal)...), then: done()},
		{says: "from nobody yet", match: append(family(unix.NFPROTO_IPV6),
			within(networkAt(8, 16), unspecified)...), then: done()},
	}}
	allow := chain{inet, allowChain(device), nil, nil}
	for _, r := range allowed {
		allow.rules = append(allow.rules, allowRules(r)...)
	}
	p := piece{
		name: device,
		entries: []entry{
			{mapInto, ifname(device), into.name},
			{mapFrom, ifname(device), from.name},
			{mapToHost, ifname(device), hostChain},
		},
		counters: []counter{{inet, deniedCounter(device)}, {inet, spoofedCounter(device)}},
	}
	if v4.IsValid() {
		from.rules = append(from.rules, rule{
			says: "from " + v4.String(), match: append(family(unix.NFPROTO_IPV4), within(networkAt(12, 4), v4)...),
			then: done(),
		})
		outside := append(family(unix.NFPROTO_IPV4), within(networkAt(12, 4), v4)...)
		outside = append(outside, metaNot(expr.MetaKeyOIFNAME, ifname(device))...)
		p.chains = append(p.chains,
			chain{inet, natChain(device),
				&hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource}, []rule{
					{says: v4.String() + " goes out as the host", match: outside, then: []expr.Any{&expr.Masq{}}},
				}})
	}
	from.rules = append(from.rules, rule{says: "from elsewhere", then: drop(spoofedCounter(device))})
	p.chains = append(p.chains, allow, into, from) // chains that are jumped to come first
	return p
}

// allowRules returns the kernel rules for one rule of network.allow.
func allowRules(r catalog.NetworkRule) (all []rule) {
	for _, kind := range []byte{unix.NFPROTO_IPV6, unix.NFPROTO_IPV4} {
		sources, some := sourcesOf(r.From, kind)
		if !some {
			continue
		}
		for _, number := range protocolsOf(r, kind) {
			one := rule{says: fmt.Sprintf("allow %s %v from %v, IPv%d protocol %d", r.Protocol, r.Ports, r.From,
				map[byte]int{unix.NFPROTO_IPV6: 6, unix.NFPROTO_IPV4: 4}[kind], number), then: accept()}
			one.match = family(kind)
			if number != 0 {
				one.match = append(one.match, protocol(number)...)
			}
			if sources != nil {
				offset, length := uint32(8), uint32(16)
				if kind == unix.NFPROTO_IPV4 {
					offset, length = 12, 4
				}
				one.match = append(one.match, networkAt(offset, length), inSet())
				one.sets = append(one.sets, sources)
			}
			if len(r.Ports) > 0 {
				one.match = append(one.match, transport(2, 2), inSet())
				one.sets = append(one.sets, portsOf(r.Ports))
			}
			all = append(all, one)
		}
	}
	return all
}

// protocolsOf returns the protocol numbers of a rule; 0 means all.
func protocolsOf(r catalog.NetworkRule, kind byte) []byte {
	switch {
	case r.Protocol == "tcp":
		return []byte{unix.IPPROTO_TCP}
	case r.Protocol == "udp":
		return []byte{unix.IPPROTO_UDP}
	case r.Protocol == "icmp" && kind == unix.NFPROTO_IPV4:
		return []byte{unix.IPPROTO_ICMP}
	case r.Protocol == "icmp":
		return []byte{unix.IPPROTO_ICMPV6}
	case len(r.Ports) > 0:
		return []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP}
	default:
		return []byte{0}
	}
}

// sourcesOf returns the sources of one family as a set, nil for all addresses. some is false if all sources are of the
// other family.
func sourcesOf(from []string, kind byte) (sources *set, some bool) {
	if len(from) == 0 {
		return nil, true
	}
	var prefixes []netip.Prefix
	for _, text := range from {
		p, err := netip.ParsePrefix(text)
		if err == nil && p.Addr().Is4() == (kind == unix.NFPROTO_IPV4) {
			prefixes = append(prefixes, p)
		}
	}
	if len(prefixes) == 0 {
		return nil, false
	}
	s := &set{of: nftables.TypeIP6Addr, interval: true}
	if kind == unix.NFPROTO_IPV4 {
		s.of = nftables.TypeIPAddr
	}
	ranges := merged(prefixes)
	if !ranges[len(ranges)-1][1].Next().IsValid() && !ranges[0][0].Prev().IsValid() && len(ranges) == 1 {
		return nil, true
	}
	for _, r := range ranges {
		s.elements = append(s.elements, nftables.SetElement{Key: r[0].AsSlice()})
		if end := r[1].Next(); end.IsValid() {
			s.elements = append(s.elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return s, true
}

func portsOf(ports []int64) *set {
	s := &set{of: nftables.TypeInetService}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(ports))) {
		s.elements = append(s.elements, nftables.SetElement{Key: []byte{byte(p >> 8), byte(p)}})
	}
	return s
}

// portPiece returns the rules of a port: permitted senders, and permitted source addresses.
func portPiece(network string, p sal.Port, device string) piece {
	inet, bridge := nftables.TableFamilyINet, nftables.TableFamilyBridge
	into := chain{inet, intoChain(device), nil, []rule{
		{says: "what the network allows", then: jump(allowChain(network))},
		{says: "nothing else", then: drop(deniedCounter(device))},
	}}
	spoofed := func() []expr.Any { return drop(spoofedCounter(device)) }
	only6 := etherType(unix.ETH_P_IPV6)
	from := chain{bridge, fromChain(device), nil, []rule{
		{says: "not from " + p.MAC.String(), match: differs(link(6, 6), p.MAC), then: spoofed()},
		{says: "no router", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpRouterAdvertisement})), then: spoofed()},
		{says: "no redirect", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpRedirect})), then: spoofed()},
		{says: "no DHCPv6 server", match: slices.Concat(only6, protocol(unix.IPPROTO_UDP),
			equals(transport(0, 2), []byte{dhcp6Server >> 8, dhcp6Server & 0xff})), then: spoofed()},
		{says: "neighbour of the wire", match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpNeighbourAdvertisement}), within(transport(8, 16), linkLocal)),
			then: accept()},
		{says: "no neighbour but " + p.IPv6.Addr().String(), match: slices.Concat(only6, protocol(unix.IPPROTO_ICMPV6),
			equals(transport(0, 1), []byte{icmpNeighbourAdvertisement}),
			differs(transport(8, 16), p.IPv6.Addr().AsSlice())), then: spoofed()},
		{says: "from " + p.IPv6.Addr().String(), match: slices.Concat(only6,
			equals(network6Source(), p.IPv6.Addr().AsSlice())), then: accept()},
		{says: "from the wire", match: slices.Concat(only6, within(network6Source(), linkLocal)), then: accept()},
		{says: "from nobody yet", match: slices.Concat(only6, within(network6Source(), unspecified)), then: accept()},
	}}
	pc := piece{
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
			rule{says: "no DHCP server", match: slices.Concat(only4, protocol(unix.IPPROTO_UDP),
				equals(transport(0, 2), []byte{dhcp4Server >> 8, dhcp4Server & 0xff})), then: spoofed()},
			rule{
				says:  "from " + p.IPv4.Addr().String(),
				match: append(etherType(unix.ETH_P_IP), equals(networkAt(12, 4), own)...), then: accept(),
			},
			rule{
				says:  "arp not from " + p.MAC.String(),
				match: append(etherType(unix.ETH_P_ARP), differs(networkAt(8, 6), p.MAC)...), then: spoofed(),
			},
			rule{
				says:  "arp of " + p.IPv4.Addr().String(),
				match: append(etherType(unix.ETH_P_ARP), equals(networkAt(14, 4), own)...), then: accept(),
			},
			rule{
				says:  "arp of nobody yet",
				match: append(etherType(unix.ETH_P_ARP), equals(networkAt(14, 4), make([]byte, 4))...), then: accept(),
			},
		)
	}
	from.rules = append(from.rules, rule{says: "nothing else", then: spoofed()})
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

var (
	linkLocal   = netip.MustParsePrefix("fe80::/10")
	multicast6  = netip.MustParsePrefix("ff00::/8")
	multicast4  = netip.MustParsePrefix("224.0.0.0/4")
	unspecified = netip.MustParsePrefix("::/128")
)

// pieceOwner returns the device that a chain or counter of ours belongs to, "" if all networks share it.
func pieceOwner(name string) string {
	for _, prefix := range []string{"into-", "from-", "allow-", "nat-"} {
		if device, found := strings.CutPrefix(name, prefix); found {
			return device
		}
	}
	for _, suffix := range []string{"-denied", "-spoofed"} {
		if device, found := strings.CutSuffix(name, suffix); found && device != hostChain {
			return device
		}
	}
	return ""
}
