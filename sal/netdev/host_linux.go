package netdev

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/netns"
	"writ/sal"
	"writ/sal/netdev/firewall"
)

// host gives access to the network namespace of the networks during one operation. It is valid while the calling thread
// is in that namespace.
type host struct {
	*changes
	records    records
	links      links
	firewall   *firewall.Tables
	namespaces *namespaces
	networks   *networks
	ports      *ports
	publisher  publisher
}

// enterHost moves the calling thread to the driver's namespace. The same goroutine must call leave.
func enterHost(d *Driver) (h *host, leave func(), err error) {
	back := func() {}
	if d.Netns != "" {
		if back, err = netns.Enter(d.Netns); err != nil {
			return nil, nil, failed("enter the network namespace "+d.Netns, err)
		}
	}
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		back()
		return nil, nil, failed("open a netlink socket", err)
	}
	h = newHost(d, kernel)
	return h, func() {
		h.firewall.Close()
		kernel.Close()
		back()
	}, nil
}

func newHost(d *Driver, kernel *netlink.Handle) *host {
	c := &changes{before: d.Step}
	h := &host{
		changes: c, records: recordsOf(d), links: links{c, kernel}, firewall: firewall.New(c.step, c.repaired),
		namespaces: &namespaces{
			changes: c, dir: cmp.Or(d.Namespaces, DefaultNamespaces), marks: filepath.Join(d.Dir, "namespaces"),
		},
	}
	h.networks = &networks{
		changes: c, records: h.records, links: h.links, firewall: h.firewall, nameservers: d.Nameservers,
	}
	h.ports = &ports{
		changes: c, records: h.records, links: h.links, firewall: h.firewall, namespaces: h.namespaces,
		networks: h.networks, nameservers: d.Nameservers, open: d.Open,
	}
	h.publisher = publisher{h.ports}
	return h
}

// keep compares a network and its ports with their records, and repairs them.
func (h *host) keep(resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := h.records.networks.Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Own.Phase == making { // the caller of the operation repeats it or has given up
		return nil, h.networks.clear(r)
	}
	if r, err = h.networks.recovered(resource); err != nil || r == nil {
		return nil, err
	}
	h.drift = nil
	if _, err := h.networks.ensure(r); err != nil {
		return h.asDrift(err)
	}
	if err := h.networks.reportOverlap(r); err != nil {
		return nil, err
	}
	barriers, err := firewall.Barriers(r.Resource.HostName(), ipv4(r).IsValid())
	if err != nil {
		return nil, failed("list the rules of other firewalls", err)
	}
	h.drift = append(h.drift, barriers...)
	owners, err := h.records.holdings.on(r.UID)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		switch o.Own.Phase {
		case deleting:
			err = h.ports.release(o.UID, o)
		case ready, changing:
			err = h.ports.ensure(o)
		}
		if err != nil {
			return h.asDrift(err)
		}
	}
	return h.drift, nil
}

// traffic returns the bytes that an owner received and sent through its ports.
func (h *host) traffic(owner writ.UID) (received, sent int64, err error) {
	r, err := h.records.holdings.Get(ownerID(owner))
	if err != nil || r == nil {
		return 0, 0, err
	}
	for _, name := range r.Own.devices(r.UID) {
		l, err := h.links.find(name)
		if err != nil {
			return 0, 0, failed("read the counters of "+r.Own.Owner.String(), err)
		}
		if l == nil || l.Attrs().Statistics == nil {
			continue
		}
		// This is the host end of the link, which receives the packets that the owner sends.
		received += int64(l.Attrs().Statistics.TxBytes)
		sent += int64(l.Attrs().Statistics.RxBytes)
	}
	return received, sent, nil
}

// maxPorts limits the ports in a report about dropped packets.
const maxPorts = 50

// countDrops adds the packets that were dropped at the ports of all owners.
func (h *host) countDrops(state *writ.NodeNetwork) error {
	all, _, err := h.records.holdings.List()
	if err != nil {
		return err
	}
	for _, r := range all {
		for _, p := range r.Own.Ports {
			denied, spoofed, err := h.firewall.Dropped(device(r.UID, p))
			if err != nil {
				return failed("read the counters of "+r.Own.Owner.String(), err)
			}
			state.Denied, state.Spoofed = state.Denied+denied, state.Spoofed+spoofed
			if denied+spoofed > 0 {
				state.Ports = append(state.Ports, writ.PortDrops{
					Owner: r.Own.Owner.String(), Network: p.Network.Name, Denied: denied, Spoofed: spoofed,
				})
			}
		}
	}
	slices.SortStableFunc(state.Ports,
		func(a, b writ.PortDrops) int { return cmp.Compare(b.Denied+b.Spoofed, a.Denied+a.Spoofed) })
	state.Ports = state.Ports[:min(len(state.Ports), maxPorts)]
	return nil
}
