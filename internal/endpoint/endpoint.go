// Package endpoint formats the addresses at which clients reach resources. It does not depend on how packets get there.
package endpoint

import (
	"net"
	"slices"
	"strconv"

	"writ"
)

// All returns every address of a resource: its published ports first, because clients outside the datacenter use them,
// then its addresses on its networks. It returns no address twice.
func All(s writ.Standing) []string {
	var all []string
	add := func(address string) {
		if address != "" && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	for _, p := range s.Published {
		add(Published(p))
	}
	for _, address := range append([]string{s.Address, s.IPv4}, s.MoreAddresses...) {
		add(address)
	}
	return all
}

// Published formats a published port: "192.0.2.10:8080" or, for UDP, "[2001:db8::10]:53/udp".
func Published(p writ.Published) string {
	text := Join(p.Address, p.Port)
	if p.Protocol != "tcp" {
		text += "/" + p.Protocol
	}
	return text
}

// Join returns host:port. An IPv6 address gets brackets.
func Join(host string, port int64) string { return net.JoinHostPort(host, strconv.FormatInt(port, 10)) }
