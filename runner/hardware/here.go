package hardware

import (
	"net"
	"net/netip"
	"os"
)

// Here is the machine of this process.
func Here() Machine { return Machine{Root: os.DirFS("/"), Addresses: addressesHere} }

// addressesHere returns the addresses of a card of this machine. Those that a card gives itself say nothing of the network, and are left out.
func addressesHere(name string) (all []netip.Prefix) {
	card, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	found, err := card.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			all = append(all, prefix)
		}
	}
	return all
}
