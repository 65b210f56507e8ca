package hardware

import (
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"

	"writ"
	"writ/supervisor/nodes"
)

// nics returns the network interfaces that have a device, and bonds and VLANs. It omits temporary interfaces that writ
// or other programs create for guests, which have no device.
func nics(f files, addresses func(name string) []netip.Prefix) (all []writ.HostNIC) {
	for _, name := range f.list("sys/class/net") {
		at := path.Join("sys/class/net", name)
		kind := settings(f.read(at + "/uevent"))["DEVTYPE"]
		if !f.exists(at+"/device") && kind != "bond" && kind != "vlan" {
			continue
		}
		if len(all) == nodes.MaxNICs {
			break
		}
		n := writ.HostNIC{
			Name: word(name), MAC: word(f.read(at + "/address")), Carrier: f.read(at+"/carrier") == "1",
			SpeedMbit: max(f.number(at+"/speed"), 0), Addresses: addressTexts(name, addresses),
		}
		if driver, err := fs.ReadLink(f.FS, at+"/device/driver"); err == nil {
			n.Driver = word(path.Base(driver))
		} else {
			n.Driver = word(kind)
		}
		all = append(all, n)
	}
	return all
}

// addressTexts returns the sorted addresses of a network interface.
func addressTexts(name string, addresses func(name string) []netip.Prefix) (all []string) {
	if addresses == nil {
		return nil
	}
	for _, address := range addresses(name) {
		all = append(all, address.String())
	}
	slices.Sort(all)
	return all[:min(len(all), nodes.MaxAddresses)]
}

// addressesHere returns the addresses of a network interface of this machine. It omits link-local addresses, which
// other networks cannot reach.
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
