package netdev

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/netdev/firewall"
)

// networks makes, repairs and removes networks. Each network consists of a record, rules and a bridge.
type networks struct {
	*changes
	records  records
	links    links
	firewall *firewall.Tables
	subnet   netip.Prefix // the host's range in the overlay, set by enterWithRange; zero after enter

	nameservers func() []netip.Addr // Driver.Nameservers
}

// do executes an operation, except a removal.
func (n *networks) do(request sal.Request) (sal.Outcome, error) {
	r, err := n.recovered(request.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	if request.Operation.Effect == catalog.Make {
		return n.make(r, request)
	}
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	args, ok := request.Args.(*catalog.NetworkAllow)
	if !ok {
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the netdev driver cannot do %s",
			request.Operation.Name())
	}
	return n.allow(r, args.Rules)
}

// recovered returns a network's record after finishing interrupted operations. It returns nil for a network that was
// never completed.
func (n *networks) recovered(resource writ.ResourceID) (*sal.Record[network], error) {
	r, err := n.records.networks.Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, n.clear(r)
	case changing:
		if n.subnet.IsValid() { // otherwise the network is about to be removed
			return r, n.finish(r)
		}
	}
	return r, nil
}

func (n *networks) make(r *sal.Record[network], request sal.Request) (sal.Outcome, error) {
	change, _, err := r.Decide(request) // no field of a network is mutable
	if err != nil {
		return sal.Outcome{}, err
	}
	if change == writ.ChangeCreated {
		if r, err = n.create(request); err != nil {
			return sal.Outcome{}, err
		}
	}
	return sal.Outcome{Change: change, Values: values(n.subnet, r)}, nil
}

// create creates the network and removes it again if that fails.
func (n *networks) create(request sal.Request) (*sal.Record[network], error) {
	all, damaged, err := n.records.networks.List()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(other *sal.Record[network]) bool { return other.Resource == request.Resource })
	if err := sal.RoomForResource(request.Resource, all, maxNetworks); err != nil {
		return nil, err
	}
	hidden, err := n.links.rangesOf(damaged)
	if err != nil {
		return nil, err
	}
	r := sal.NewRecord[network](request)
	if err := n.requireFreeRange(r, all, hidden); err != nil {
		return nil, err
	}
	r.Own.Phase = making
	r.Own.Index, err = freeIndex(r.Resource, func(index uint16) bool {
		return slices.ContainsFunc(all, func(other *sal.Record[network]) bool { return other.Own.Index == index }) ||
			slices.ContainsFunc(hidden, rangeOf(n.subnet, index).Overlaps)
	})
	if err != nil {
		return nil, err
	}
	if err := n.records.networks.Put(r); err != nil {
		return nil, err
	}
	if err := n.finish(r); err != nil {
		return nil, errors.Join(err, n.clear(r))
	}
	return r, nil
}

// maxNetworks limits the networks of a project on the node. A network uses no capacity of the node, but a bridge, rules
// and one of 65,536 ranges shared by all projects. OpenStack Neutron has the same limit (quota_network).
const maxNetworks = 100

func (n *networks) allow(r *sal.Record[network], rules []catalog.NetworkRule) (sal.Outcome, error) {
	if err := firewall.Check(rules); err != nil {
		return sal.Outcome{}, err
	}
	if err := catalog.CheckRules(r.Resource, rules, ipv4(r).IsValid()); err != nil {
		return sal.Outcome{}, err
	}
	if len(rules) == len(r.Own.Rules) && (len(rules) == 0 || reflect.DeepEqual(rules, r.Own.Rules)) {
		return sal.Outcome{Change: writ.ChangeUnchanged, Values: values(n.subnet, r)}, nil
	}
	r.Own.Rules, r.Own.Phase = rules, changing
	if err := n.records.networks.Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if err := n.finish(r); err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: writ.ChangeUpdated, Values: values(n.subnet, r)}, nil
}

// finish applies a record to the kernel and marks it as ready.
func (n *networks) finish(r *sal.Record[network]) error {
	if _, err := n.ensure(r); err != nil {
		return failed("make "+r.Resource.String(), err)
	}
	r.Own.Phase = ready
	r.Generation++
	return n.records.networks.Put(r)
}

// ensure creates or repairs a network according to its record, without its ports, and returns its bridge.
func (n *networks) ensure(r *sal.Record[network]) (netlink.Link, error) {
	name, v6, v4 := r.Resource.HostName(), rangeOf(n.subnet, r.Own.Index), ipv4(r)
	if err := n.links.enableForwarding(v4.IsValid()); err != nil {
		return nil, err
	}
	bridge, err := n.links.ours(name, "bridge", r.UID)
	if err != nil {
		return nil, err
	}
	if err := n.firewall.Put(firewall.NetworkRules(name, v6, v4, r.Own.Rules)); err != nil {
		return nil, err
	}
	if bridge == nil {
		n.repaired("the bridge %s was missing", name)
		quiet := false // without queries, snooping would break neighbour discovery
		bridge, err = n.links.create(&netlink.Bridge{
			LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}, MulticastSnooping: &quiet,
		}, r.UID)
		if err != nil {
			return nil, err
		}
	}
	if err := n.configure(bridge, v4.IsValid()); err != nil {
		return nil, err
	}
	if err := n.links.apply(bridge, shape{mac: macOf(r.UID, r.UID)}); err != nil {
		return nil, err
	}
	want := []netip.Prefix{netip.PrefixFrom(in(v6, gatewayHost), v6.Bits())}
	if v4.IsValid() {
		want = append(want, netip.PrefixFrom(router(v4), v4.Bits()))
	}
	return bridge, n.links.setAddresses(bridge, want...)
}

// configure sets the kernel settings of a bridge, regardless of the host's defaults.
func (n *networks) configure(bridge netlink.Link, v4 bool) error {
	if err := n.links.setMTU(bridge); err != nil { // with an MTU below 1280 bytes, the bridge has no IPv6 settings
		return err
	}
	name := bridge.Attrs().Name
	settings := map[string]string{"ipv6/conf/" + name + "/disable_ipv6": "0", "ipv6/conf/" + name + "/accept_ra": "0"}
	if v4 {
		settings["ipv4/conf/"+name+"/forwarding"] = "1"
	}
	for setting, value := range settings {
		if err := n.set("/proc/sys/net/"+setting, value); err != nil {
			return err
		}
	}
	return nil
}

func (n *networks) remove(request sal.Request) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(request.Resource, request.UID, false)),
	}
	r, err := n.records.networks.GetToRemove(request)
	if err != nil || r == nil {
		return gone, err
	}
	if r.Own.Phase == making || r.Own.Phase == deleting { // incomplete, or removed already
		return gone, n.clear(r)
	}
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	owners, err := n.records.holdings.on(r.UID)
	if err == nil {
		err = n.records.holdings.requireAll()
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	if len(owners) > 0 {
		var names []string
		for _, o := range owners {
			names = append(names, o.Own.Owner.String())
		}
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceBusy, "%s is still used by %s", r.Resource,
			strings.Join(names, ", ")).
			WithHint("delete its users first, or remove them from the network")
	}
	gone.Change = writ.ChangeDeleted
	return gone, n.clear(r)
}

// clear removes a network and then its record.
func (n *networks) clear(r *sal.Record[network]) error {
	r.Own.Phase = deleting
	if err := n.records.networks.Put(r); err != nil {
		return err
	}
	name := r.Resource.HostName()
	err := n.links.removeAll(name)
	if err == nil {
		err = n.firewall.Withdraw(name)
	}
	if err != nil {
		return failed("remove "+r.Resource.String(), err)
	}
	return n.records.networks.Remove(r.Resource)
}
