package netdev

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"writ"
	"writ/internal/opening"
	"writ/sal"
	"writ/sal/netdev/firewall"
)

// ports connects owners to networks. It creates a record for each owner, and rules and a link for each port of an
// owner.
type ports struct {
	*changes
	records     records
	links       links
	firewall    *firewall.Tables
	namespaces  *namespaces
	networks    *networks
	nameservers func() []netip.Addr // Driver.Nameservers
	open        opening.List        // Driver.Open
}

// connect gives an owner a port on exactly these networks.
func (p *ports) connect(owner sal.Owner, networks []writ.Ref, namespace bool) ([]sal.Port, error) {
	r, err := p.held(owner, namespace)
	if err != nil {
		return nil, err
	}
	on, err := p.resolve(owner, networks)
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
	if err := p.plan(r, on); err != nil {
		return nil, err
	}
	if err := p.ensure(r); err != nil {
		err = failed("connect "+owner.Resource.String()+" to its networks", err)
		if fresh { // a new holding gets all its ports or none
			err = errors.Join(err, p.release(owner.UID, r))
		}
		return nil, err
	}
	if r.Own.Phase != ready {
		r.Own.Phase = ready
		r.Generation++
		if err := p.records.holdings.Put(r); err != nil {
			return nil, err
		}
	}
	described := make([]sal.Port, 0, len(on))
	for i, n := range on {
		described = append(described, describe(p.networks.subnet, n, r.Own.Ports[i], r))
	}
	return described, p.setNameservers(described)
}

// held returns the record of an owner, or nil if the record is missing or damaged. It first finishes an interrupted
// release, after which the record is missing. It returns RESOURCE_CONFLICT if the record does not match the request.
func (p *ports) held(owner sal.Owner, namespace bool) (*sal.Record[holding], error) {
	r, err := p.records.holdings.Get(ownerID(owner.UID))
	switch {
	case writ.CodeOf(err) == writ.CodeRecordDamaged:
		return nil, nil // the ports are derived again from the UID of the owner and its networks
	case err != nil || r == nil:
		return nil, err
	case r.Own.Phase == deleting:
		return nil, p.release(owner.UID, r)
	case r.Own.Owner != owner.Resource || r.Own.Namespace != namespace || namespace && r.Own.IDs != owner.IDs:
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s already holds ports under the id of %s", r.Own.Owner,
			owner.Resource)
	}
	return r, nil
}

// resolve returns the records of the networks that handles refer to. It returns RESOURCE_UNKNOWN if a network is
// missing.
func (p *ports) resolve(owner sal.Owner, networks []writ.Ref) ([]*sal.Record[network], error) {
	var all []*sal.Record[network]
	for _, ref := range networks {
		wanted := sal.Request{
			Resource: writ.ResourceID{Project: owner.Resource.Project, Kind: writ.KindNetwork, Name: ref.Name},
			UID:      ref.UID,
		}
		r, err := p.networks.recovered(wanted.Resource)
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
func (p *ports) plan(r *sal.Record[holding], on []*sal.Record[network]) error {
	same := slices.EqualFunc(r.Own.Ports, on, func(has port, n *sal.Record[network]) bool { return has.UID == n.UID })
	if same && r.Own.Phase != "" {
		return nil
	}
	others, damaged, err := p.records.holdings.List()
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(o *sal.Record[holding]) bool { return o.UID == r.UID })
	hidden := slices.ContainsFunc(damaged, func(d sal.Damaged) bool { return d.HostName != r.Resource.HostName() })
	// Only IPv4 ranges are so small that the addresses in damaged records matter.
	if hidden && slices.ContainsFunc(on, func(n *sal.Record[network]) bool { return ipv4(n).IsValid() }) {
		return p.records.holdings.requireAll()
	}
	next, drop, err := planPorts(r, on, others)
	if err != nil {
		return err
	}
	for _, d := range drop {
		if err := p.unplug(device(r.UID, d)); err != nil {
			return failed("disconnect "+r.Own.Owner.String()+" from "+d.Network.String(), err)
		}
	}
	r.Own.Ports = next
	r.Own.Phase = making
	return p.records.holdings.Put(r)
}

// setNameservers sets the reachable nameservers of each port.
func (p *ports) setNameservers(described []sal.Port) error {
	if p.nameservers == nil || len(described) == 0 {
		return nil
	}
	servers := p.nameservers()
	own, err := ownAddresses()
	if err != nil {
		return failed("list the addresses of this node", err)
	}
	for i := range described {
		described[i].Nameservers = reachableNameservers(servers, own, described[i].IPv4.IsValid())
	}
	return nil
}

// ensure creates or repairs the ports of an owner, the rules of each port first.
func (p *ports) ensure(r *sal.Record[holding]) error {
	if r.Own.Namespace {
		if err := p.namespaces.ensure(r); err != nil {
			return err
		}
	}
	var all []sal.Port
	for _, held := range r.Own.Ports {
		n, err := p.records.networks.Get(held.Network)
		if err != nil {
			return err
		}
		if n == nil || n.UID != held.UID {
			return sal.Unknown(held.Network)
		}
		described := describe(p.networks.subnet, n, held, r)
		all = append(all, described)
		if err := p.plug(n, described, r, device(r.UID, held)); err != nil {
			return err
		}
	}
	if !r.Own.Namespace {
		return nil
	}
	link, err := publisher{p}.ensure(r, all)
	if err != nil {
		return err
	}
	namespace := p.namespaces.path(r.UID)
	kernel, closeKernel, err := handleAt(namespace)
	if err != nil {
		return err
	}
	defer closeKernel()
	return interior{links{p.changes, kernel}, namespace}.configure(all, link)
}

// release removes the ports and namespace of an owner, and then its record. Names are derived from the UID, so it also
// works without a record.
func (p *ports) release(owner writ.UID, r *sal.Record[holding]) error {
	if r != nil && r.Own.Phase != deleting {
		r.Own.Phase = deleting
		if err := p.records.holdings.Put(r); err != nil {
			return err
		}
	}
	names, err := p.devices(ownerID(owner).HostName())
	if err == nil {
		err = shares{p}.updateAll(nil) // shared ports no longer lead to the link of the owner
	}
	if err == nil {
		err = p.unplug(names...)
	}
	if err == nil {
		err = p.namespaces.remove(p.namespaces.path(owner))
	}
	if err != nil {
		return failed("remove the ports of "+string(owner), err)
	}
	if r == nil {
		return nil
	}
	forget(r.Own.Link, 0)
	return p.records.holdings.Remove(r.Resource)
}

// devices returns the names of an owner's devices that have a link or rules. owner is the host name of its record.
func (p *ports) devices(owner string) (names []string, err error) {
	prefix := owner + "-"
	links, err := p.links.kernel.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		name := l.Attrs().Name
		if final, found := strings.CutPrefix(name, temporaryName("")); found && strings.HasPrefix(final, prefix) {
			name = final
		}
		names = append(names, name)
	}
	ruled, err := p.firewall.Devices()
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(append(names, ruled...), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	return slices.Compact(names), nil
}
