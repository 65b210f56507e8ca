package catalog

import (
	"net/netip"
	"slices"
	"time"

	"writ"
)

// NetworkCreate holds the arguments of network.create.
type NetworkCreate struct {
	IPv4 string `writ:"ipv4,form=prefix4" help:"a private IPv4 range with NAT to the outside; without it, the network has only IPv6 on the overlay"`
}

// NetworkRule permits packets into a network.
type NetworkRule struct {
	Protocol string   `writ:"protocol,default=tcp,enum=tcp|udp|icmp|any" help:"the protocol"`
	Ports    []int64  `writ:"ports,each=1..65535,min=1,max=64,not=protocol:icmp" help:"destination ports of tcp or udp; the default is all"`
	From     []string `writ:"from,form=prefix,min=1,max=64" help:"source address ranges; the default is all"`
}

// NetworkAllow holds the arguments of network.allow.
type NetworkAllow struct {
	Rules []NetworkRule `writ:"rules,required,max=256" help:"all permitted traffic from outside; an empty list closes the network"`
}

// Publish is a port of the node that leads to a port of a container or machine.
type Publish struct {
	Port     int64  `writ:"port,required,min=0,max=65535" help:"the port of the node; 0 means any free port"`
	To       int64  `writ:"to,required,min=1,max=65535" help:"the port that the program listens on"`
	Protocol string `writ:"protocol,default=tcp,enum=tcp|udp" help:"the protocol"`
	// Share is the name under which containers of the project share the port. It is "" if only one container publishes
	// it.
	Share string `writ:"share,form=name,max=63" help:"containers of the project with this name share the port"`
}

// uselessShare checks the fields of a published port together. Fields may have unknown values.
func uselessShare(port map[string]any) (name, problem string) {
	if port["share"] != nil && port["port"] == int64(0) {
		return "share", "needs a port other than 0: containers share a port by its number"
	}
	return "", ""
}

// Publishing returns the ports in the argument publish, or in the field published of a handle. It skips elements of any
// other form, such as unknown values.
func Publishing(list any) []Publish {
	ports, _ := list.([]any)
	var all []Publish
	for _, one := range ports {
		fields, _ := one.(map[string]any)
		port, known := fields["port"].(int64)
		if !known {
			continue
		}
		p := Publish{Port: port, Protocol: "tcp"}
		p.To, _ = fields["to"].(int64)
		if protocol, given := fields["protocol"].(string); given {
			p.Protocol = protocol
		}
		p.Share, _ = fields["share"].(string)
		all = append(all, p)
	}
	return all
}

// Published is a published port at one address of the node.
type Published struct {
	Address  string `writ:"address,required" help:"an address of the node"`
	Port     int64  `writ:"port,required" help:"the port of the node"`
	To       int64  `writ:"to,required" help:"the port that the program listens on"`
	Protocol string `writ:"protocol,required" help:"tcp or udp"`
	Share    string `writ:"share" help:"the name under which containers of the project share the port"`
}

// publishedOf returns the ports in the result field published.
func publishedOf(list any) []writ.Published {
	ports, _ := list.([]any)
	var all []writ.Published
	for _, one := range ports {
		for _, p := range Publishing([]any{one}) {
			address, _ := one.(map[string]any)["address"].(string)
			all = append(all, writ.Published{Address: address, Port: p.Port, To: p.To, Protocol: p.Protocol})
		}
	}
	return all
}

// Network is the result of operations on a network.
type Network struct {
	Identity
	Subnet  string `writ:"subnet,required" help:"its IPv6 range, a part of the node's range"`
	Gateway string `writ:"gateway,required" help:"the node's address in it"`
	Bridge  string `writ:"bridge,required" help:"the network interface on the node"`
	MTU     int64  `writ:"mtu,required" help:"the maximum packet size, in bytes"`
	Rules   int64  `writ:"rules,required" help:"number of rules; 0 means that the network is closed from outside"`
}

func networkOperations() []*Operation {
	network := declaration{Module: "network", Kind: writ.KindNetwork, Repeat: Safe}
	return []*Operation{
		declare[NetworkCreate, Network](network.with("create", Make, time.Minute,
			"Creates a network on the node. Its members reach each other and the outside. Traffic from outside is blocked "+
				"until it is allowed.").adds()),
		declare[Nothing, Network](network.with("get", Find, time.Minute,
			"Finds a network that an earlier run created.").reads()),
		declare[NetworkAllow, Network](network.with("allow", Alter, time.Minute,
			"Sets the permitted traffic from outside into a network. It replaces the earlier rules.").
			uses("The permitted senders can reach the services on the network, and their data.")),
		declare[Nothing, Identity](network.with("delete", Remove, time.Minute,
			"Deletes a network without members.").destroys("The network and its address range; no data.")),
	}
}

// CheckRules returns the error for a rule of network.allow that could never match: it permits only IPv4 addresses, and
// the network has no IPv4 range.
func CheckRules(network writ.ResourceID, rules []NetworkRule, hasIPv4 bool) *writ.Error {
	if hasIPv4 {
		return nil
	}
	for i, r := range rules {
		if len(r.From) > 0 && !slices.ContainsFunc(r.From, isIPv6) {
			return writ.Errorf(writ.CodeArgumentsInvalid,
				"rules[%d] permits only IPv4 addresses, and %s has no IPv4 range: it would match no packet", i, network).
				WithHint("name IPv6 ranges in from, or create a network with ipv4")
		}
	}
	return nil
}

// isIPv6 reports whether a text is an IPv6 address range.
func isIPv6(text string) bool {
	p, err := netip.ParsePrefix(text)
	return err != nil || p.Addr().Is6() // package catalog has checked the form
}
