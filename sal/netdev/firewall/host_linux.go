package firewall

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// hostChain filters packets from networks to the host itself, and ontoChain filters packets from the host to networks.
const (
	hostChain = "host"
	ontoChain = "host-onto"
)

// keptCounter counts multicast packets of the host to networks, which are dropped.
const keptCounter = "host-kept"

// base returns the rules that all networks share.
func base() Ruleset {
	hooked := func(kind nftables.ChainType, at *nftables.ChainHook, priority *nftables.ChainPriority) *hook {
		return &hook{kind, at, priority}
	}
	return Ruleset{
		chains: []chain{
			{inet, hostChain, nil, []rule{
				{text: "replies to the host", match: established(), then: accept()},
				{text: "icmpv6 to the host", match: protocol(unix.IPPROTO_ICMPV6), then: accept()},
				{text: "icmp to the host", match: protocol(unix.IPPROTO_ICMP), then: accept()},
				{text: "other packets to the host", then: drop("host-denied")},
			}},
			{inet, "forward", hooked(nftables.ChainTypeFilter, nftables.ChainHookForward,
				nftables.ChainPriorityFilter), []rule{
				{text: "from a network", match: jumpBy(expr.MetaKeyIIFNAME, mapFrom)},
				{text: "into a network", match: jumpBy(expr.MetaKeyOIFNAME, mapInto)},
			}},
			{inet, "input", hooked(nftables.ChainTypeFilter, nftables.ChainHookInput,
				nftables.ChainPriorityFilter), []rule{
				{text: "from a network", match: jumpBy(expr.MetaKeyIIFNAME, mapFrom)},
				{text: "from a network to the host", match: jumpBy(expr.MetaKeyIIFNAME, mapToHost)},
			}},
			{bridge, "prerouting", hooked(nftables.ChainTypeFilter, nftables.ChainHookPrerouting,
				nftables.ChainPriorityRef(bridgeBefore)), []rule{
				{text: "from a port", match: jumpBy(expr.MetaKeyIIFNAME, mapDevice)},
			}},
			// Without this chain, programs that search for peers by multicast on all interfaces, such as mycelium and mDNS,
			// would reveal the host to tenants. Neighbour discovery is not affected: it uses ICMPv6 and ARP.
			{bridge, ontoChain, nil, []rule{
				{text: "multicast of the host by IPv6", match: slices.Concat(etherType(unix.ETH_P_IPV6),
					protocol(unix.IPPROTO_UDP), within(destination6(), multicast6)), then: drop(keptCounter)},
				{text: "multicast of the host by IPv4", match: slices.Concat(etherType(unix.ETH_P_IP),
					protocol(unix.IPPROTO_UDP), within(destination4(), multicast4)), then: drop(keptCounter)},
			}},
			{bridge, "output", hooked(nftables.ChainTypeFilter, nftables.ChainHookOutput,
				nftables.ChainPriorityRef(bridgeBefore)), []rule{
				{text: "onto a port", match: jumpBy(expr.MetaKeyOIFNAME, mapOnto)},
			}},
		},
		counters: []counter{{inet, "host-denied"}, {bridge, keptCounter}},
	}
}

// bridgeBefore is a priority before all other users of bridge hooks.
const bridgeBefore = -300
