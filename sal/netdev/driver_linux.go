package netdev

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func describeHost() string { return "bridges, veth pairs and taps of the kernel, rules of nftables" }

// Do executes an operation on a network.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	enter := d.enterWithRange
	if request.Operation.Effect == catalog.Remove {
		enter = d.enter // removal works without the overlay
	}
	h, leave, err := enter(ctx)
	if err != nil {
		return sal.Outcome{}, err
	}
	defer leave()
	if request.Operation.Effect == catalog.Remove {
		return h.remove(request)
	}
	r, err := h.recovered(request.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Effect {
	case catalog.Make:
		return h.make(r, request)
	default:
		return h.use(r, request)
	}
}

// recovered returns a network's record after finishing interrupted operations. It returns nil for a network that was
// never completed.
func (h *host) recovered(resource writ.ResourceID) (*sal.Record[network], error) {
	r, err := h.networks().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, h.clear(r)
	case changing:
		if h.subnet.IsValid() { // otherwise the network is about to be removed
			return r, h.finish(r)
		}
	}
	return r, nil
}

func (h *host) make(r *sal.Record[network], request sal.Request) (sal.Outcome, error) {
	change, _, err := r.Decide(request) // no field of a network is mutable
	if err != nil {
		return sal.Outcome{}, err
	}
	if change == writ.ChangeCreated {
		if r, err = h.create(request); err != nil {
			return sal.Outcome{}, err
		}
	}
	return sal.Outcome{Change: change, Values: h.values(r)}, nil
}

// create creates the network and removes it again if that fails.
func (h *host) create(request sal.Request) (*sal.Record[network], error) {
	all, damaged, err := h.networks().List()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(other *sal.Record[network]) bool { return other.Resource == request.Resource })
	if err := sal.RoomForResource(request.Resource, countOf(all, request.Resource.Project), maxNetworks); err != nil {
		return nil, err
	}
	hidden, err := h.rangesOf(damaged)
	if err != nil {
		return nil, err
	}
	r := sal.NewRecord[network](request)
	if err := h.freeRange(r, all, hidden); err != nil {
		return nil, err
	}
	r.Own.Phase = making
	r.Own.Index, err = freeIndex(r.Resource, func(index uint16) bool {
		return slices.ContainsFunc(all, func(other *sal.Record[network]) bool { return other.Own.Index == index }) ||
			slices.ContainsFunc(hidden, rangeOf(h.subnet, index).Overlaps)
	})
	if err != nil {
		return nil, err
	}
	if err := h.networks().Put(r); err != nil {
		return nil, err
	}
	if err := h.finish(r); err != nil {
		return nil, errors.Join(err, h.clear(r))
	}
	return r, nil
}

// maxNetworks limits the networks of a project on the node. A network uses no capacity of the node, but a bridge, rules
// and one of 65,536 ranges shared by all projects. OpenStack Neutron has the same limit (quota_network).
const maxNetworks = 100

// countOf counts the networks of a project.
func countOf(all []*sal.Record[network], project writ.ProjectID) (n int) {
	for _, r := range all {
		if r.Resource.Project == project {
			n++
		}
	}
	return n
}

// rangesOf returns the ranges of networks with damaged records, as far as their bridges exist.
func (h *host) rangesOf(damaged []sal.Damaged) (all []netip.Prefix, err error) {
	for _, d := range damaged {
		bridge, err := h.link(d.HostName)
		if err != nil {
			return nil, failed("inspect the bridge "+d.HostName, err)
		}
		if bridge == nil {
			continue
		}
		addresses, err := h.kernel.AddrList(bridge, netlink.FAMILY_ALL)
		if err != nil {
			return nil, failed("list the addresses of the bridge "+d.HostName, err)
		}
		for _, a := range addresses {
			all = append(all, prefixOf(a.IPNet))
		}
	}
	return all, nil
}

// finish applies a record to the kernel and marks it as ready.
func (h *host) finish(r *sal.Record[network]) error {
	if _, err := h.ensure(r); err != nil {
		return failed("make "+r.Resource.String(), err)
	}
	r.Own.Phase = ready
	r.Generation++
	return h.networks().Put(r)
}

// ensure creates or repairs a network according to its record, without its ports, and returns its bridge.
func (h *host) ensure(r *sal.Record[network]) (netlink.Link, error) {
	name, v6, v4 := r.Resource.HostName(), rangeOf(h.subnet, r.Own.Index), ipv4(r)
	if err := h.forwarding(v4.IsValid()); err != nil {
		return nil, err
	}
	bridge, err := h.ours(name, "bridge", r.UID)
	if err != nil {
		return nil, err
	}
	if err := h.put(networkPiece(name, v6, v4, r.Own.Rules)); err != nil {
		return nil, err
	}
	if bridge == nil {
		h.repaired("the bridge %s was missing", name)
		quiet := false // without queries, snooping would break neighbour discovery
		bridge, err = h.createLink(&netlink.Bridge{
			LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, MulticastSnooping: &quiet,
		}, r.UID)
		if err != nil {
			return nil, err
		}
	}
	// Regardless of the host's defaults.
	for setting, value := range map[string]string{"disable_ipv6": "0", "accept_ra": "0"} {
		if err := h.setting("/proc/sys/net/ipv6/conf/"+name+"/"+setting, value); err != nil {
			return nil, err
		}
	}
	want := []netip.Prefix{netip.PrefixFrom(in(v6, gatewayHost), v6.Bits())}
	if v4.IsValid() {
		want = append(want, netip.PrefixFrom(router(v4), v4.Bits()))
	}
	if err := h.address(h.kernel, bridge, want...); err != nil {
		return nil, err
	}
	return bridge, h.applyShape(h.kernel, bridge, shape{mac: macOf(r.UID, r.UID)})
}

// freeRange returns an error if the IPv4 range of a new network is in use.
func (h *host) freeRange(r *sal.Record[network], others []*sal.Record[network], hidden []netip.Prefix) error {
	want := ipv4(r)
	if !want.IsValid() {
		return nil
	}
	taken := func(by string, p netip.Prefix) error {
		return writ.Errorf(writ.CodeResourceConflict, "%s cannot use %s: %s is %s on this node", r.Resource, want, p,
			by).
			WithHint("use another range")
	}
	for _, other := range others {
		if p := ipv4(other); p.IsValid() && p.Overlaps(want) {
			return taken(holderOf(other.Resource, r.Resource.Project), p)
		}
	}
	for _, p := range hidden {
		if p.Overlaps(want) {
			return taken("used by a network with a damaged record", p)
		}
	}
	w, err := h.overlap(want)
	if err != nil || w == nil {
		return err
	}
	return taken(w.how, w.to)
}

// holderOf describes the user of a range for a script: it does not reveal names in other projects.
func holderOf(r writ.ResourceID, asks writ.ProjectID) string {
	if r.Project != asks {
		return "used by a network of another project"
	}
	return "used by " + r.String()
}

func (h *host) remove(request sal.Request) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(request.Resource, request.UID, false)),
	}
	r, err := h.networks().GetToRemove(request)
	if err != nil || r == nil {
		return gone, err
	}
	if r.Own.Phase == making || r.Own.Phase == deleting { // incomplete, or removed already
		return gone, h.clear(r)
	}
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	on, err := h.on(r)
	if err == nil {
		err = h.requireNeighbours()
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	if len(on) > 0 {
		var names []string
		for _, o := range on {
			names = append(names, o.Own.Owner.String())
		}
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceBusy, "%s is still used by %s", r.Resource,
			strings.Join(names, ", ")).
			WithHint("delete its users first, or remove them from the network")
	}
	gone.Change = writ.ChangeDeleted
	return gone, h.clear(r)
}

// requireNeighbours returns an error if the ports on the node's networks are unknown.
func (h *host) requireNeighbours() error {
	_, damaged, err := h.holdings().List()
	if err != nil || len(damaged) == 0 {
		return err
	}
	return writ.Errorf(writ.CodeRecordDamaged, "a record of ports on networks is damaged: %s: %w", damaged[0].Path,
		damaged[0].Why).
		WithHint("restart the resource that lost its ports, which writes the record again, or delete it; if no resource lost its ports, remove the file")
}

// on returns the owners with a port on a network.
func (h *host) on(r *sal.Record[network]) ([]*sal.Record[holding], error) {
	all, _, err := h.holdings().List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o *sal.Record[holding]) bool {
		return !slices.ContainsFunc(o.Own.Ports, func(p port) bool { return p.UID == r.UID })
	}), nil
}

// clear removes a network and then its record.
func (h *host) clear(r *sal.Record[network]) error {
	r.Own.Phase = deleting
	if err := h.networks().Put(r); err != nil {
		return err
	}
	name := r.Resource.HostName()
	err := errors.Join(h.removeTemporary(name), h.removeLink(name))
	if err == nil {
		err = h.withdraw(name)
	}
	if err != nil {
		return failed("remove "+r.Resource.String(), err)
	}
	return h.networks().Remove(r.Resource)
}

// use executes Alter and Look operations.
func (h *host) use(r *sal.Record[network], request sal.Request) (sal.Outcome, error) {
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	args, ok := request.Args.(*catalog.NetworkAllow)
	if !ok {
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the netdev driver cannot do %s",
			request.Operation.Name())
	}
	return h.allow(r, args.Rules)
}

func (h *host) allow(r *sal.Record[network], rules []catalog.NetworkRule) (sal.Outcome, error) {
	if err := checkRules(rules); err != nil {
		return sal.Outcome{}, err
	}
	if len(rules) == len(r.Own.Rules) && (len(rules) == 0 || reflect.DeepEqual(rules, r.Own.Rules)) {
		return sal.Outcome{Change: writ.ChangeUnchanged, Values: h.values(r)}, nil
	}
	r.Own.Rules, r.Own.Phase = rules, changing
	if err := h.networks().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if err := h.finish(r); err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: writ.ChangeUpdated, Values: h.values(r)}, nil
}

func (h *host) values(r *sal.Record[network]) map[string]any { return values(h.subnet, r) }

// values returns the fields of a handle to a network.
func values(host netip.Prefix, r *sal.Record[network]) map[string]any {
	v6 := rangeOf(host, r.Own.Index)
	return catalog.Values(catalog.Network{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Subnet:   v6.String(),
		Gateway:  in(v6, gatewayHost).String(),
		Bridge:   r.Resource.HostName(),
		MTU:      MTU,
		Rules:    int64(len(r.Own.Rules)),
	})
}

// Observe returns the record of a network.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.networks().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	subnet, err := d.subnet(ctx)
	if err != nil {
		return sal.Observation{}, err
	}
	return sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase), Values: values(subnet, r)}, ctx.Err()
}

// List returns every network that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.networks().Resources(ctx)
}
