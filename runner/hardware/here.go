package hardware

import (
	"net"
	"net/netip"
	"os"
)

// Here returns the machine of this process.
func Here() Machine { return Machine{Root: os.DirFS("/"), Addresses: addressesHere} }

// addressesHere returns the addresses of a network interface of this machine, without link-local ones, which are
// unrelated to the network.
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
