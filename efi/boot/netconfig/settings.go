// Package netconfig configures the network of a starting machine and keeps it configured: addresses from the settings,
// by DHCP, by DHCPv6 and from routers, default routes, resolv.conf, the host name and the VLAN. A machine without an
// address waits without a limit; the package reports the reason and the remedy to a Host. The package does not depend
// on the other stages of the start, or on how a Host shows reports.
package netconfig

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Settings holds the settings of a machine's network.
type Settings struct {
	Name string // name of the node; if "", derived from the address of the first network card

	// Interface is the name or hardware address of the only card that gets VLAN, Addresses and Gateways; "" means every
	// card.
	Interface   string
	VLAN        int            // id of the VLAN that the card uses exclusively; 0 for none
	Addresses   []netip.Prefix // IPv4 and IPv6; if set, the card requests no further addresses
	Gateways    []netip.Addr   // for a card with Addresses
	Nameservers []netip.Addr   // used before the nameservers from DHCP and routers
}

// isFor reports whether the settings for a single card apply to the card with this name and hardware address.
func (s *Settings) isFor(name string, address net.HardwareAddr) bool {
	return s.Interface == "" || s.Interface == name || s.Interface == address.String()
}

// gatewayText returns the first gateway of an address family as text for people, "" if it has no gateway.
func (s *Settings) gatewayText(ofFamily func(netip.Addr) bool) string {
	if i := slices.IndexFunc(s.Gateways, ofFamily); i >= 0 {
		return ", gateway " + s.Gateways[i].String()
	}
	return ""
}

// nameFor derives a node name from the hardware address of its first card.
func nameFor(card net.HardwareAddr) string {
	if len(card) == 0 {
		return "node"
	}
	return "node-" + strings.ReplaceAll(card.String(), ":", "")
}
