// Package netdev is the network driver. Each network is a bridge in the kernel of this host. A tap or a veth pair
// connects each guest to the bridge. The driver names devices, assigns addresses, and drops packets from outside unless
// network.allow permits them. It also drops packets with spoofed addresses. It is independent of machines and
// containers, and of how the overlay carries packets.
//
// Names. A bridge is named by writ.ResourceID.HostName. A port is named "p", ten characters derived from its owner's
// UID, "-" and a number. Every link has an alias that begins with "writ ", which distinguishes it from links of other
// programs. The names of chains and counters of a network or port end or begin with the name of its device.
//
// Addresses. A network is a /96 of the host's range in the overlay, RANGE:ff0f:NNNN::/96, where NNNN is derived from
// the network's project and name. The gateway has the address ::1 in this range. The last 32 bits of a port's address
// are derived from the owner's UID. NNNN and these bits are stored in records, and collisions are resolved.
//
// Layout below Dir: networks/ and ports/ contain records in the format of package sal. namespaces/ contains a file for
// each namespace that this node made. A record is written before its first link is created, and removed after its last
// link. Rules exist before the link that they guard; see package firewall.
package netdev

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"

	"writ"
	"writ/internal/opening"
	"writ/sal"
)

// MTU is the MTU of the overlay in bytes: mycelium's tunnel has 1400.
const MTU = 1400

// Driver manages networks in one network namespace. It also implements sal.Networks.
type Driver struct {
	Dir     string      // required: an absolute path; holds the records
	Overlay sal.Overlay // required: provides the range of the networks
	// Netns is the file of the network namespace for the networks, the process's own if empty.
	Netns string
	// Namespaces is the directory for the files of owners' namespaces; DefaultNamespaces if empty.
	Namespaces string
	// Nameservers returns nameservers for guests; see HostNameservers. A guest gets the nameservers that it can reach.
	// Nameservers is called for each new port. If it is nil, guests get no nameservers.
	Nameservers func() []netip.Addr
	// Open lists the ports of the node that owners may publish. It may change between runs.
	Open opening.List
	// Step is called before every single change of Dir and of the kernel; tests can stop the driver there. It may be nil.
	Step func(name string)

	mu sync.Mutex // serialises all operations: they share tables and ranges, and take only milliseconds
}

// DefaultNamespaces is the directory that ip-netns(8) uses, so that `ip netns` lists the namespaces of this driver.
const DefaultNamespaces = "/run/netns"

// Describe returns the driver and the state of its overlay.
func (d *Driver) Describe() writ.NodeDriver {
	detail := describeHost()
	if o, ok := d.Overlay.(interface{ Detail() string }); ok {
		detail += "; " + o.Detail()
	}
	return writ.NodeDriver{Module: "network", Name: "netdev", Detail: detail, Opens: d.Open.Texts()}
}

// Do executes an operation on a network.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	return do(ctx, d, request)
}

// Taps creates a tap on each network.
func (d *Driver) Taps(ctx context.Context, owner sal.Owner, networks []writ.Ref) ([]sal.Port, error) {
	_, ports, err := connect(ctx, d, owner, networks, false)
	return ports, err
}

// Namespace creates a namespace with an interface on each network.
func (d *Driver) Namespace(
	ctx context.Context, owner sal.Owner, networks []writ.Ref,
) (path string, ports []sal.Port, err error) {
	return connect(ctx, d, owner, networks, true)
}

// Publisher publishes ports of owners that have a namespace.
func (d *Driver) Publisher() sal.Publisher { return publications{d} }

// Release removes the ports and namespace of an owner.
func (d *Driver) Release(ctx context.Context, owner sal.Owner) error {
	return release(ctx, d, owner.UID)
}

// Observe returns the record of a network.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := recordsOf(d).networks.Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	subnet, err := subnetOf(ctx, d.Overlay)
	if err != nil {
		return sal.Observation{}, err
	}
	return sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase), Values: values(subnet, r)}, ctx.Err()
}

// List returns every network that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return recordsOf(d).networks.Resources(ctx)
}

// Owners returns the owners of all ports and namespaces.
func (d *Driver) Owners(ctx context.Context) ([]sal.Owner, error) {
	records, _, err := recordsOf(d).holdings.List()
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
