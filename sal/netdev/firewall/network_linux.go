package firewall

import (
	"fmt"
	"net/netip"
	"slices"

	"writ/sal/catalog"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// NetworkRules returns the rules of a network without its ports. device is its bridge, v6 and v4 are its ranges, and
// allowed is the argument of network.allow.
func NetworkRules(device string, v6, v4 netip.Prefix, allowed []catalog.NetworkRule) Ruleset {
	into := chain{inet, intoChain(device), nil, []rule{
		{text: "within " + device, match: meta(expr.MetaKeyIIFNAME, ifname(device)), then: accept()},
		{text: "replies", match: established(), then: accept()},
		{text: "by IPv6 address", match: append(family(unix.NFPROTO_IPV6),
			lookupMap(destination6(), mapAddress6)...)},
		{text: "by IPv4 address", match: append(family(unix.NFPROTO_IPV4),
			lookupMap(destination4(), mapAddress4)...)},
		{text: "unknown destination", then: drop(deniedCounter(device))},
	}}
	from := chain{inet, fromChain(device), nil, []rule{
		{text: "from " + v6.String(), match: append(family(unix.NFPROTO_IPV6),
			within(source6(), v6)...), then: done()},
		{text: "from a link-local address", match: append(family(unix.NFPROTO_IPV6),
			within(source6(), linkLocal)...), then: done()},
		{text: "from the unspecified address", match: append(family(unix.NFPROTO_IPV6),
			within(source6(), unspecified)...), then: done()},
	}}
	allow := chain{inet, allowChain(device), nil, nil}
	for _, r := range allowed {
		allow.rules = append(allow.rules, allowRules(r)...)
	}
	p := Ruleset{
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
			text: "from " + v4.String(), match: append(family(unix.NFPROTO_IPV4), within(source4(), v4)...),
			then: done(),
		})
		outside := append(family(unix.NFPROTO_IPV4), within(source4(), v4)...)
		outside = append(outside, differs(load(expr.MetaKeyOIFNAME), ifname(device))...)
		p.chains = append(p.chains,
			chain{inet, natChain(device),
				&hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource}, []rule{
					{text: v4.String() + " leaves as the host", match: outside, then: []expr.Any{&expr.Masq{}}},
				}})
	}
	from.rules = append(from.rules, rule{text: "from another address", then: drop(spoofedCounter(device))})
	p.chains = append(p.chains, allow, into, from) // a chain must exist before a rule jumps to it
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
			one := rule{text: fmt.Sprintf("allow %s %v from %v, IPv%d protocol %d", r.Protocol, r.Ports, r.From,
				map[byte]int{unix.NFPROTO_IPV6: 6, unix.NFPROTO_IPV4: 4}[kind], number), then: accept()}
			one.match = family(kind)
			if number != 0 {
				one.match = append(one.match, protocol(number)...)
			}
			if sources != nil {
				source := source6()
				if kind == unix.NFPROTO_IPV4 {
					source = source4()
				}
				one.match = append(one.match, source, inSet())
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

// sourcesOf returns the sources of one family as a set. A nil set means all addresses. some is false if all sources
// belong to the other family.
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

// merged returns the ranges of the prefixes, sorted and without overlapping or adjacent ranges, as the kernel requires.
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
