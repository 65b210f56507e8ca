// Package firewall filters the packets of networks and their ports with nftables, in the network namespace of the
// calling thread.
//
// All rules are in two tables, "inet writ" and "bridge writ". The rules of a network or port are a Ruleset, which
// changes in one kernel transaction. The package uses no records and changes no links.
package firewall

import (
	"writ"
	"writ/sal/catalog"
)

// Check returns ARGUMENTS_INVALID for contradictory rules of network.allow.
func Check(rules []catalog.NetworkRule) error {
	for i, r := range rules {
		if r.Protocol == "icmp" && len(r.Ports) > 0 {
			return writ.Errorf(writ.CodeArgumentsInvalid, "rules[%d] has ports for icmp, which has no ports", i).
				WithHint("omit ports, or use tcp or udp")
		}
	}
	return nil
}
