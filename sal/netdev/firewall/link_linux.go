package firewall

import (
	"fmt"
	"net/netip"
	"slices"

	"writ/sal"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Link is a pair of interfaces that carries only connections to the published ports of one owner.
type Link struct {
	Device      string        // interface on the host
	Host, Guest [2]netip.Addr // its addresses at both ends: IPv4, IPv6
	Own         []netip.Addr  // IPv6 addresses of the guest on its networks
	Ports       []ForwardedPort
}

// ForwardedPort is a port of the host that leads to a port of a guest.
type ForwardedPort struct {
	Address netip.Addr // of the host
	sal.Claim
}

// linkBase returns the rules that all links share. They are separate from the rules of networks, because they need NAT,
// which some kernels lack.
func linkBase() Ruleset {
	translate := func(name string, at *nftables.ChainHook) chain {
		return chain{inet, name, &hook{nftables.ChainTypeNAT, at, nftables.ChainPriorityNATDest}, []rule{
			{text: "to a published port of tcp", match: append(protocol(unix.IPPROTO_TCP), lookupMap(transport(2, 2), mapTCP)...)},
			{text: "to a published port of udp", match: append(protocol(unix.IPPROTO_UDP), lookupMap(transport(2, 2), mapUDP)...)},
		}}
	}
	return Ruleset{
		name: linkShared,
		chains: []chain{
			translate("link-prerouting", nftables.ChainHookPrerouting),
			translate("link-local", nftables.ChainHookOutput),
			{inet, "link-postrouting", &hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource},
				[]rule{{text: "onto a link", match: jumpBy(expr.MetaKeyOIFNAME, mapSource)}}},
			{inet, "link-output", &hook{nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter},
				[]rule{{text: "onto a link", match: jumpBy(expr.MetaKeyOIFNAME, mapLink)}}},
			{inet, "link-raw", &hook{nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw},
				[]rule{{text: "from a link", match: jumpBy(expr.MetaKeyIIFNAME, mapGuard)}}},
		},
	}
}

// linkShared is the name of the rules that all links share.
const linkShared = "links"

// LinkRules returns the rules of a link. Connections to its ports lead to the guest, and everything else is dropped:
// the guest can answer but not begin a connection. Shared ports need SharedRules, too.
func LinkRules(l Link) Ruleset {
	denied, spoofed := drop(deniedCounter(l.Device)), drop(spoofedCounter(l.Device))
	into := chain{inet, intoChain(l.Device), nil, []rule{
		{text: "replies", match: established(), then: accept()},
		{text: "neighbour discovery", match: neighbours(), then: accept()},
		{text: "to a published port", match: translated(), then: accept()},
		{text: "other packets", then: denied},
	}}
	from := chain{inet, fromChain(l.Device), nil, []rule{
		{text: "replies", match: established(), then: done()},
		{text: "neighbour discovery", match: neighbours(), then: done()},
		{text: "other packets", then: denied},
	}}
	// Packets to 127.0.0.0/8 would reach services of the host, because route_localnet, which replies need, makes the
	// kernel accept such packets.
	guard := chain{inet, guardChain(l.Device), nil, []rule{
		{text: "to a loopback address", match: append(family(unix.NFPROTO_IPV4), within(destination4(), loopback4)...), then: spoofed},
		{text: "from " + l.Guest[0].String(), match: append(family(unix.NFPROTO_IPV4), equals(source4(), l.Guest[0].AsSlice())...), then: done()},
		{text: "from " + l.Guest[1].String(), match: append(family(unix.NFPROTO_IPV6), equals(source6(), l.Guest[1].AsSlice())...), then: done()},
		{text: "from a link-local address", match: append(family(unix.NFPROTO_IPV6), within(source6(), linkLocal)...), then: done()},
		{text: "from the unspecified address", match: append(family(unix.NFPROTO_IPV6), within(source6(), unspecified)...), then: done()},
		{text: "from another address", then: spoofed},
	}}
	target, source := chain{inet, targetChain(l.Device), nil, nil}, sourceRules(l)
	r := Ruleset{
		name: l.Device, shared: linkBase,
		entries: []entry{
			{mapFrom, ifname(l.Device), from.name}, {mapInto, ifname(l.Device), into.name}, {mapLink, ifname(l.Device), into.name},
			{mapGuard, ifname(l.Device), guard.name}, {mapSource, ifname(l.Device), source.name},
		},
		counters: []counter{{inet, deniedCounter(l.Device)}, {inet, spoofedCounter(l.Device)}},
	}
	for _, p := range l.Ports {
		target.rules = append(target.rules, targetRule(l, p))
		port := entry{mapOfPorts(p.Protocol), portKey(p.Port), target.name}
		if p.Share == "" && port.find(r.entries) < 0 { // for a shared port, SharedRules adds the entry
			r.entries = append(r.entries, port)
		}
	}
	r.chains = []chain{into, from, guard, target, source}
	return r
}

// targetRule returns the rule that translates the destination of connections to a port. For a loopback address, the
// rule only matches connections of the host itself. Other hosts can also send packets to such an address, and the
// kernel drops these only after this translation.
func targetRule(l Link, p ForwardedPort) rule {
	to, kind, destination := l.Guest[1], byte(unix.NFPROTO_IPV6), destination6()
	if p.Address.Is4() {
		to, kind, destination = l.Guest[0], unix.NFPROTO_IPV4, destination4()
	}
	r := rule{
		text: fmt.Sprintf("%s to %s", netip.AddrPortFrom(p.Address, uint16(p.Port)), netip.AddrPortFrom(to, uint16(p.To))),
		match: slices.Concat(family(kind), equals(destination, p.Address.AsSlice()), protocol(numberOf(p.Protocol)),
			equals(transport(2, 2), portKey(p.Port))),
		then: translate(expr.NATTypeDestNAT, kind, to, p.To),
	}
	if p.Address.IsLoopback() {
		r.text += " from this host"
		r.match = append(meta(expr.MetaKeyOIFNAME, ifname("lo")), r.match...)
	}
	r.text += " " + p.Protocol
	return r
}

// sourceRules returns the rules that replace the source address of connections. They replace addresses to which the
// guest could not reply: loopback addresses and addresses of the guest itself. They also replace the source address of
// all datagrams. A program with a socket for all addresses would otherwise reply from the address of its preferred
// interface.
func sourceRules(l Link) chain {
	c := chain{inet, sourceChain(l.Device), nil, nil}
	as := func(i int, kind byte) []expr.Any { return translate(expr.NATTypeSourceNAT, kind, l.Host[i], 0) }
	c.rules = append(c.rules,
		rule{text: "from a loopback address", match: append(family(unix.NFPROTO_IPV4), within(source4(), loopback4)...),
			then: as(0, unix.NFPROTO_IPV4)},
		rule{text: "datagrams by IPv4", match: append(family(unix.NFPROTO_IPV4), protocol(unix.IPPROTO_UDP)...),
			then: as(0, unix.NFPROTO_IPV4)},
		rule{text: "datagrams by IPv6", match: append(family(unix.NFPROTO_IPV6), protocol(unix.IPPROTO_UDP)...),
			then: as(1, unix.NFPROTO_IPV6)},
	)
	for _, own := range l.Own {
		c.rules = append(c.rules, rule{text: "from the guest itself, " + own.String(),
			match: append(family(unix.NFPROTO_IPV6), equals(source6(), own.AsSlice())...), then: as(1, unix.NFPROTO_IPV6)})
	}
	return c
}

// translate replaces the source or destination address of a connection, and the port unless it is 0.
func translate(kind expr.NATType, family byte, address netip.Addr, port int64) []expr.Any {
	nat := &expr.NAT{Type: kind, Family: uint32(family), RegAddrMin: register}
	exprs := []expr.Any{&expr.Immediate{Register: register, Data: address.AsSlice()}}
	if port != 0 {
		nat.RegProtoMin = register + 1
		exprs = append(exprs, &expr.Immediate{Register: register + 1, Data: portKey(port)})
	}
	return append(exprs, nat)
}

// translated matches packets of connections whose destination was translated.
func translated() []expr.Any {
	const destinationNAT = 1 << 5 // IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(destinationNAT), Xor: make([]byte, 4),
		},
		compare(expr.CmpOpNeq, make([]byte, 4)),
	}
}

// neighbours matches neighbour solicitations and advertisements.
func neighbours() []expr.Any {
	return append(protocol(unix.IPPROTO_ICMPV6), transport(0, 1),
		&expr.Range{Op: expr.CmpOpEq, Register: register, FromData: []byte{icmpNeighbourSolicitation}, ToData: []byte{icmpNeighbourAdvertisement}})
}

const icmpNeighbourSolicitation = 135

// portKey returns a port as the kernel compares it.
func portKey(port int64) []byte { return []byte{byte(port >> 8), byte(port)} }

func numberOf(protocol string) byte {
	if protocol == "udp" {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}

// mapOfPorts returns the map from the published ports of a protocol to the chains of their owners.
func mapOfPorts(protocol string) string {
	if protocol == "udp" {
		return mapUDP
	}
	return mapTCP
}
