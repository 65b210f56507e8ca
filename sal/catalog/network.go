package catalog

import (
	"time"

	"writ"
)

// NetworkCreate holds the arguments of network.create.
type NetworkCreate struct {
	IPv4 string `writ:"ipv4,form=prefix4" help:"a private IPv4 range that reaches the outside through NAT; without it the network has IPv6 on the overlay only"`
}

// NetworkRule permits packets into a network.
type NetworkRule struct {
	Protocol string   `writ:"protocol,default=tcp,enum=tcp|udp|icmp|any" help:"which protocol"`
	Ports    []int64  `writ:"ports,each=1..65535,min=1,max=64,not=protocol:icmp" help:"destination ports of tcp or udp; all if it is not given"`
	From     []string `writ:"from,form=prefix,min=1,max=64" help:"address ranges that may send; all addresses if it is not given"`
}

// NetworkAllow holds the arguments of network.allow.
type NetworkAllow struct {
	Rules []NetworkRule `writ:"rules,required,max=256" help:"everything that may come in from outside; an empty list closes the network"`
}

// Network is the result of operations on a network.
type Network struct {
	Identity
	Subnet  string `writ:"subnet,required" help:"the IPv6 range of its addresses, part of the node's own"`
	Gateway string `writ:"gateway,required" help:"the node's address in it"`
	Bridge  string `writ:"bridge,required" help:"the network interface on the node"`
	MTU     int64  `writ:"mtu,required" help:"the biggest packet that passes, in bytes"`
	Rules   int64  `writ:"rules,required" help:"how many rules let packets in; 0: it is closed from outside"`
}

func networkOperations() []*Operation {
	network := Operation{Module: "network", Kind: writ.KindNetwork, Repeat: Safe}
	return []*Operation{
		declare[NetworkCreate, Network](network.with("create", Make, time.Minute,
			"Makes a network on the node; what is on it reaches each other and the outside, and nothing comes in until it is allowed.").adds()),
		declare[Nothing, Network](network.with("get", Find, time.Minute,
			"Finds a network that an earlier run made.").reads()),
		declare[NetworkAllow, Network](network.with("allow", Alter, time.Minute,
			"Says what may come into a network from outside, in place of what was allowed before.").
			uses("The senders that are let in can reach the services on the network, and their data.")),
		declare[Nothing, Identity](network.with("delete", Remove, time.Minute,
			"Deletes a network that nothing is on any more.").destroys("The network and its range of addresses; no data.")),
	}
}
