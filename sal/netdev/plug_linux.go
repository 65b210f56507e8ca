package netdev

import (
	"errors"
	"os"

	"github.com/vishvananda/netlink"

	"writ/sal"
	"writ/sal/netdev/firewall"
)

// plug creates or repairs a port: first its rules, then its device.
func (p *ports) plug(n *sal.Record[network], described sal.Port, r *sal.Record[holding], name string) error {
	bridge, err := p.networks.ensure(n)
	if err != nil {
		return err
	}
	kind := "tuntap"
	if r.Own.Namespace {
		kind = "veth"
	}
	l, err := p.links.ours(name, kind, r.UID)
	if err != nil {
		return err
	}
	if err := p.firewall.Put(firewall.PortRules(n.Resource.HostName(), described, name)); err != nil {
		return err
	}
	if l != nil && r.Own.Namespace {
		if l, err = p.keepPair(l, described.Device, p.namespaces.path(r.UID)); err != nil {
			return err
		}
	}
	if l == nil {
		p.repaired("the port %s of %s was missing", name, r.Own.Owner)
		if l, err = p.newLink(name, described, r); err != nil {
			return err
		}
	}
	return p.links.apply(l, shape{master: bridge.Attrs().Index, silent: true})
}

// newLink creates a tap, or a veth pair with one end in the namespace of the owner.
func (p *ports) newLink(name string, described sal.Port, r *sal.Record[holding]) (netlink.Link, error) {
	attrs := netlink.LinkAttrs{Name: name, TxQLen: -1}
	if !r.Own.Namespace {
		return p.links.create(newTap(attrs), r.UID)
	}
	f, err := os.Open(p.namespaces.path(r.UID))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pair := netlink.NewVeth(attrs)
	pair.MTU, pair.PeerMTU = MTU, MTU
	pair.PeerName, pair.PeerHardwareAddr = described.Device, described.MAC
	pair.PeerNamespace = netlink.NsFd(int(f.Fd()))
	return p.links.create(pair, r.UID)
}

// newTap returns a tap to create.
func newTap(attrs netlink.LinkAttrs) *netlink.Tuntap {
	return &netlink.Tuntap{
		LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_ONE_QUEUE,
	}
}

// keepPair returns the veth pair l if its other end, `inside`, is in the namespace. Otherwise, it removes the pair and
// returns nil.
func (p *ports) keepPair(l netlink.Link, inside, namespace string) (netlink.Link, error) {
	kernel, closeKernel, err := handleAt(namespace)
	if err != nil {
		return nil, err
	}
	defer closeKernel()
	_, err = kernel.LinkByName(inside)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil, p.links.remove(l.Attrs().Name)
	}
	return l, err
}

// unplug removes ports and then their rules.
func (p *ports) unplug(names ...string) error {
	for _, name := range names {
		if err := p.links.removeAll(name); err != nil {
			return err
		}
	}
	return p.firewall.Withdraw(names...)
}
