package netdev

import (
	"context"

	"writ/sal/needs"
)

// Needs returns the requirements of networks. Kernel features are tested in a temporary network namespace, so that the
// kernel loads its modules.
func (d *Driver) Needs() []needs.Need {
	const install = "boot a kernel of the distribution, because kernels for containers or small machines may lack it: "
	return []needs.Need{
		{
			Name: "rights on links", Use: "there are no networks",
			Fix: "run the node as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN", Vital: true,
			Look: func(context.Context) (string, error) { return lookRights(d.Netns) },
		},
		{
			Name: "forwarding", Use: "there are no networks",
			Fix: "mount -o remount,rw /proc/sys, and remove ipv6.disable=1 from the kernel's arguments", Vital: true,
			Look: lookForwarding,
		},
		{Name: "bridges and veth pairs", Use: "there are no networks", Fix: install +
			"modprobe -a bridge veth", Vital: true, Look: inNamespace(tryLinks)},
		{Name: "nftables", Use: "there are no networks", Fix: install +
			"modprobe -a nf_tables nft_ct nft_objref nft_meta_bridge", Vital: true, Look: inNamespace(tryRules)},
		{Name: "nftables for addresses", Use: "networks have no ipv4, and containers publish no ports", Fix: install +
			"modprobe -a nft_chain_nat nft_masq nft_nat", Look: inNamespace(tryTranslation)},
		{
			Name: "nameservers", Use: "containers and machines have no nameserver",
			Fix:  "configure a nameserver that networks can reach: writ runner --nameserver ADDRESS",
			Look: func(context.Context) (string, error) { return lookNameservers(d.Nameservers) },
		},
		{Name: "taps", Use: "machines have no networks", Fix: "modprobe tun", Look: inNamespace(tryTap)},
	}
}
