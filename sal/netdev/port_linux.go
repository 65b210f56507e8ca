package netdev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"writ"
	"writ/sal"
)

// Taps creates a tap on each network.
func (d *Driver) Taps(ctx context.Context, owner sal.Owner, networks []writ.Ref) ([]sal.Port, error) {
	return d.connect(ctx, owner, networks, false)
}

// Namespace creates a namespace with an interface on each network.
func (d *Driver) Namespace(
	ctx context.Context, owner sal.Owner, networks []writ.Ref,
) (path string, ports []sal.Port, err error) {
	ports, err = d.connect(ctx, owner, networks, true)
	if err != nil {
		return "", nil, err
	}
	return d.namespacePath(owner.UID), ports, nil
}

// connect gives an owner a port on exactly these networks.
func (d *Driver) connect(
	ctx context.Context, owner sal.Owner, networks []writ.Ref, namespace bool,
) ([]sal.Port, error) {
	h, leave, err := d.enterWithRange(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r, err := h.holdings().Get(ownerID(owner.UID))
	if writ.CodeOf(err) == writ.CodeRecordDamaged {
		err = nil // its ports are derived again from its id and its networks
	}
	if err != nil {
		return nil, err
	}
	if r != nil && r.Own.Phase == deleting {
		if err := h.release(owner.UID, r); err != nil {
			return nil, err
		}
		r = nil
	}
	if r != nil &&
		(r.Own.Owner != owner.Resource || r.Own.Namespace != namespace || namespace && r.Own.IDs != owner.IDs) {
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s already holds ports under the id of %s", r.Own.Owner,
			owner.Resource)
	}
	on, err := h.resolve(owner, networks)
	if err != nil {
		return nil, err
	}
	fresh := r == nil
	if fresh {
		r = &sal.Record[holding]{Resource: ownerID(owner.UID), UID: owner.UID, Operation: "hold"}
		r.Own = holding{Owner: owner.Resource, Namespace: namespace}
		if namespace {
			r.Own.IDs = owner.IDs
		}
	}
	if err := h.plan(r, on); err != nil {
		return nil, err
	}
	if err := h.ensureHolding(r); err != nil {
		err = failed("connect "+owner.Resource.String()+" to its networks", err)
		if fresh { // a new holding gets all its ports or none
			err = errors.Join(err, h.release(owner.UID, r))
		}
		return nil, err
	}
	if r.Own.Phase != ready {
		r.Own.Phase = ready
		r.Generation++
		if err := h.holdings().Put(r); err != nil {
			return nil, err
		}
	}
	ports := make([]sal.Port, 0, len(on))
	for i, n := range on {
		ports = append(ports, h.describe(n, r.Own.Ports[i], r))
	}
	return ports, h.setNameservers(ports)
}

// setNameservers sets the reachable nameservers of each port.
func (h *host) setNameservers(ports []sal.Port) error {
	if h.Nameservers == nil || len(ports) == 0 {
		return nil
	}
	servers := h.Nameservers()
	own, err := ownAddresses()
	if err != nil {
		return failed("list the addresses of this node", err)
	}
	for i := range ports {
		ports[i].Nameservers = reachableNameservers(servers, own, ports[i].IPv4.IsValid())
	}
	return nil
}

// resolve returns the networks of handles in a job.
func (h *host) resolve(owner sal.Owner, networks []writ.Ref) ([]*sal.Record[network], error) {
	var all []*sal.Record[network]
	for _, ref := range networks {
		wanted := sal.Request{
			Resource: writ.ResourceID{Project: owner.Resource.Project, Kind: writ.KindNetwork, Name: ref.Name},
			UID:      ref.UID,
		}
		r, err := h.recovered(wanted.Resource)
		if err == nil {
			err = r.Owned(wanted)
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *sal.Record[network]) bool { return other.UID == r.UID }) {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "%s would be on %s twice", owner.Resource, r.Resource)
		}
		all = append(all, r)
	}
	return all, nil
}

// plan records the ports that an owner is about to have, in the order of the networks, and removes ports on other
// networks.
func (h *host) plan(r *sal.Record[holding], on []*sal.Record[network]) error {
	var keep, drop []port
	for _, p := range r.Own.Ports {
		if slices.ContainsFunc(on, func(n *sal.Record[network]) bool { return n.UID == p.UID }) {
			keep = append(keep, p)
		} else {
			drop = append(drop, p)
		}
	}
	same := len(drop) == 0 &&
		slices.EqualFunc(keep, on, func(p port, n *sal.Record[network]) bool { return p.UID == n.UID })
	if same && r.Own.Phase != "" {
		return nil
	}
	for _, p := range drop {
		if err := h.unplug(device(r.UID, p)); err != nil {
			return failed("disconnect "+r.Own.Owner.String()+" from "+p.Network.String(), err)
		}
	}
	others, damaged, err := h.holdings().List()
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(o *sal.Record[holding]) bool { return o.UID == r.UID })
	hidden := slices.ContainsFunc(damaged, func(d sal.Damaged) bool { return d.HostName != r.Resource.HostName() })
	// IPv6 addresses do not run out.
	if hidden && slices.ContainsFunc(on, func(n *sal.Record[network]) bool { return ipv4(n).IsValid() }) {
		return h.requireNeighbours()
	}
	var ports []port
	for _, n := range on {
		if i := slices.IndexFunc(keep, func(p port) bool { return p.UID == n.UID }); i >= 0 {
			ports = append(ports, keep[i])
			continue
		}
		p, err := newPort(r.UID, n, others)
		if err != nil {
			return err
		}
		for slices.ContainsFunc(slices.Concat(keep, ports), func(other port) bool { return other.Number == p.Number }) {
			p.Number++
		}
		ports = append(ports, p)
	}
	r.Own.Ports = ports
	r.Own.Phase = making
	return h.holdings().Put(r)
}

// newPort returns a port with free addresses on a network.
func newPort(owner writ.UID, n *sal.Record[network], others []*sal.Record[holding]) (port, error) {
	var there []port
	for _, o := range others {
		for _, p := range o.Own.Ports {
			if p.UID == n.UID {
				there = append(there, p)
			}
		}
	}
	p := port{Network: n.Resource, UID: n.UID}
	p.Host = freeHost(owner, func(host uint32) bool {
		return slices.ContainsFunc(there, func(other port) bool { return other.Host == host })
	})
	var err error
	if v4 := ipv4(n); v4.IsValid() {
		p.IPv4, err = freeIPv4(n.Resource, v4, owner, func(a netip.Addr) bool {
			return slices.ContainsFunc(there, func(other port) bool { return other.IPv4 == a })
		})
	}
	return p, err
}

// device returns the name of a port's device on the host.
func device(owner writ.UID, p port) string {
	return fmt.Sprintf("%s-%d", ownerID(owner).HostName(), p.Number)
}

// inside returns the name of a port's interface in a namespace.
func inside(p port) string { return fmt.Sprintf("eth%d", p.Number) }

// describe returns a port in the form for its owner.
func (h *host) describe(n *sal.Record[network], p port, r *sal.Record[holding]) sal.Port {
	v6 := rangeOf(h.subnet, n.Own.Index)
	told := sal.Port{
		Network: n.Resource,
		Device:  device(r.UID, p),
		MAC:     macOf(r.UID, p.UID),
		IPv6:    netip.PrefixFrom(in(v6, p.Host), v6.Bits()),
		Gateway: in(v6, gatewayHost),
		MTU:     MTU,
	}
	if r.Own.Namespace {
		told.Device = inside(p)
	}
	if v4 := ipv4(n); v4.IsValid() {
		told.IPv4, told.Router = netip.PrefixFrom(p.IPv4, v4.Bits()), router(v4)
	}
	return told
}

// ensureHolding creates or repairs the ports of an owner, the rules of each port first.
func (h *host) ensureHolding(r *sal.Record[holding]) error {
	path := ""
	if r.Own.Namespace {
		path = h.namespacePath(r.UID)
		there, err := isNamespace(path)
		if err != nil {
			return err
		}
		if !there {
			h.repaired("the namespace of %s was missing", r.Own.Owner)
			if err := h.makeNamespace(path, r.Own.IDs); err != nil {
				return err
			}
		}
		if there && !h.isMarked(filepath.Base(path)) { // created by an earlier version
			if err := h.markNamespace(filepath.Base(path)); err != nil {
				return err
			}
		}
	}
	var ports []sal.Port
	for _, p := range r.Own.Ports {
		n, err := h.networks().Get(p.Network)
		if err != nil {
			return err
		}
		if n == nil || n.UID != p.UID {
			return sal.Unknown(p.Network)
		}
		told := h.describe(n, p, r)
		ports = append(ports, told)
		if err := h.plug(n, told, r, device(r.UID, p), path); err != nil {
			return err
		}
	}
	if r.Own.Namespace {
		return h.configureInterfaces(path, ports)
	}
	return nil
}

// plug creates a port after its rules.
func (h *host) plug(n *sal.Record[network], told sal.Port, r *sal.Record[holding], name, namespace string) error {
	bridge, err := h.ensure(n)
	if err != nil {
		return err
	}
	kind := "tuntap"
	if namespace != "" {
		kind = "veth"
	}
	l, err := h.ours(name, kind, r.UID)
	if err != nil {
		return err
	}
	if err := h.put(portPiece(n.Resource.HostName(), told, name)); err != nil {
		return err
	}
	if l != nil && namespace != "" {
		if l, err = h.keepPair(l, told.Device, namespace); err != nil {
			return err
		}
	}
	if l == nil {
		h.repaired("the port %s of %s was missing", name, r.Own.Owner)
		if l, err = h.newLink(name, told, r.UID, namespace); err != nil {
			return err
		}
	}
	return h.applyShape(h.kernel, l, shape{master: bridge.Attrs().Index, silent: true})
}

// newLink creates a tap, or a veth pair with one end in a namespace.
func (h *host) newLink(name string, told sal.Port, owner writ.UID, namespace string) (netlink.Link, error) {
	attrs := netlink.LinkAttrs{Name: name, TxQLen: -1}
	if namespace == "" {
		return h.createLink(&netlink.Tuntap{
			LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_ONE_QUEUE,
		}, owner)
	}
	f, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pair := netlink.NewVeth(attrs)
	pair.MTU, pair.PeerMTU = MTU, MTU
	pair.PeerName, pair.PeerHardwareAddr, pair.PeerNamespace = told.Device, told.MAC, netlink.NsFd(int(f.Fd()))
	return h.createLink(pair, owner)
}

// keepPair returns a veth pair if its other end is in the namespace, and removes it otherwise.
func (h *host) keepPair(l netlink.Link, inside, namespace string) (netlink.Link, error) {
	there, closeThere, err := handleAt(namespace)
	if err != nil {
		return nil, err
	}
	defer closeThere()
	_, err = there.LinkByName(inside)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil, h.removeLink(l.Attrs().Name)
	}
	return l, err
}

// unplug removes ports and then their rules.
func (h *host) unplug(names ...string) error {
	for _, name := range names {
		if err := errors.Join(h.removeTemporary(name), h.removeLink(name)); err != nil {
			return err
		}
	}
	return h.withdraw(names...)
}

// Release removes the ports and namespace of an owner.
func (d *Driver) Release(ctx context.Context, owner sal.Owner) error {
	h, leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	r, err := h.holdings().GetToRemove(sal.Request{Resource: ownerID(owner.UID), UID: owner.UID})
	if err != nil {
		return err
	}
	return h.release(owner.UID, r)
}

// release removes the ports and namespace of an owner, and then its record. Names are derived from the UID, so it also
// works without a record.
func (h *host) release(owner writ.UID, r *sal.Record[holding]) error {
	if r != nil && r.Own.Phase != deleting {
		r.Own.Phase = deleting
		if err := h.holdings().Put(r); err != nil {
			return err
		}
	}
	names, err := h.devices(ownerID(owner).HostName())
	if err == nil {
		err = h.unplug(names...)
	}
	if err == nil {
		err = h.removeNamespace(h.namespacePath(owner))
	}
	if err != nil {
		return failed("remove the ports of "+string(owner), err)
	}
	if r == nil {
		return nil
	}
	return h.holdings().Remove(r.Resource)
}

// devices returns the names of an owner's devices that have a link or rules. owner is the host name of its record.
func (h *host) devices(owner string) (names []string, err error) {
	prefix := owner + "-"
	links, err := h.kernel.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		name := l.Attrs().Name
		if fledged, found := strings.CutPrefix(name, temporaryName("")); found && strings.HasPrefix(fledged, prefix) {
			name = fledged
		}
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	s, err := h.rules()
	if err != nil {
		return nil, err
	}
	for _, c := range s.chains {
		if name := pieceOwner(c.Name); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Owners returns the owners of all ports and namespaces.
func (d *Driver) Owners(ctx context.Context) ([]sal.Owner, error) {
	records, _, err := d.holdings().List()
	if err != nil {
		return nil, err
	}
	var all []sal.Owner
	for _, r := range records {
		all = append(all, sal.Owner{Resource: r.Own.Owner, UID: r.UID})
	}
	slices.SortFunc(all, func(a, b sal.Owner) int { return cmp.Compare(a.UID, b.UID) })
	return all, ctx.Err()
}
