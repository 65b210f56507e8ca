package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// way is a route or an address of the node that overlaps with a range and does not belong to a network of this driver.
type way struct {
	to  netip.Prefix
	how string // completes "10.1.0.0/16 is …"
}

// defaultBits is the length of the longest prefix that counts as a default route. VPNs split the default route into two
// halves.
const defaultBits = 1

// routing holds the IPv4 routing state of the kernel.
type routing struct {
	kernel *netlink.Handle
	links  []netlink.Link
	routes []netlink.Route // of all tables
	rules  []netlink.Rule
}

// readRouting reads the kernel's links, routes and rules.
func readRouting(kernel *netlink.Handle) (_ *routing, err error) {
	n := routing{kernel: kernel}
	if n.links, err = kernel.LinkList(); err != nil {
		return nil, failed("list the node's interfaces", err)
	}
	all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	if n.routes, err = kernel.RouteListFiltered(netlink.FAMILY_V4, all, netlink.RT_FILTER_TABLE); err != nil {
		return nil, failed("list the node's routes", err)
	}
	if n.rules, err = kernel.RuleList(netlink.FAMILY_V4); err != nil {
		return nil, failed("list the node's routing rules", err)
	}
	return &n, nil
}

// overlap returns a way of the node that overlaps with a range, or nil.
func overlap(kernel *netlink.Handle, want netip.Prefix) (*way, error) {
	n, err := readRouting(kernel)
	if err != nil {
		return nil, err
	}
	if w, err := n.byAddress(want); w != nil || err != nil {
		return w, err
	}
	if w := n.byRoute(want); w != nil {
		return w, nil
	}
	if w := n.byRule(want); w != nil {
		return w, nil
	}
	return n.byAnswer(want)
}

// byAddress searches the addresses of interfaces.
func (n *routing) byAddress(want netip.Prefix) (*way, error) {
	for _, l := range n.links {
		if isOurs(l) {
			continue
		}
		addresses, err := n.kernel.AddrList(l, netlink.FAMILY_V4)
		if err != nil {
			return nil, failed("list the node's addresses", err)
		}
		for _, a := range addresses {
			if p := prefixOf(a.IPNet); p.Overlaps(want) {
				return &way{p, "on the interface " + l.Attrs().Name}, nil
			}
		}
	}
	return nil, nil
}

// byRoute searches the tables that the kernel consults. It includes routes of every kind, with one or several gateways,
// a nexthop group, or a blackhole.
func (n *routing) byRoute(want netip.Prefix) *way {
	for _, r := range n.routes {
		if r.Dst == nil || n.leadsHome(r) || !n.consulted(r.Table) {
			continue
		}
		if p := prefixOf(r.Dst); p.Bits() > defaultBits && p.Overlaps(want) {
			return &way{p, n.describe(r)}
		}
	}
	return nil
}

// byRule searches for a routing rule that selects another table for addresses of the range, or rejects packets to them.
func (n *routing) byRule(want netip.Prefix) *way {
	for _, rule := range n.rules {
		if rule.Dst == nil || rule.Invert {
			continue
		}
		p := prefixOf(rule.Dst)
		if p.Bits() <= defaultBits || !p.Overlaps(want) {
			continue
		}
		switch table := rule.Table; {
		case table == unix.RT_TABLE_UNSPEC && rule.Goto < 0:
			return &way{p, "rejected by a routing rule"}
		case table != unix.RT_TABLE_MAIN &&
			slices.ContainsFunc(n.routes, func(r netlink.Route) bool { return r.Table == table }):
			return &way{p, fmt.Sprintf("routed by table %d", table)}
		}
	}
	return nil
}

// byAnswer asks the kernel for the routes to the first, middle and last address of the range.
func (n *routing) byAnswer(want netip.Prefix) (*way, error) {
	for _, a := range samples(want) {
		answers, err := n.kernel.RouteGetWithOptions(a.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		switch {
		case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES),
			errors.Is(err, unix.EINVAL):
			continue // no route, or only a default route that rejects
		case err != nil:
			return nil, failed("ask for the node's route to "+a.String(), err)
		}
		for _, r := range answers {
			if r.Dst == nil || n.leadsHome(r) {
				continue
			}
			if p := prefixOf(r.Dst); p.Bits() > defaultBits {
				return &way{p, n.describe(r)}, nil
			}
		}
	}
	return nil, nil
}

// samples returns the first, the middle and the last address of a range.
func samples(p netip.Prefix) []netip.Addr {
	size := uint32(1) << (32 - p.Bits())
	at := func(offset uint32) netip.Addr {
		a := p.Masked().Addr().As4()
		binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+offset)
		return netip.AddrFrom4(a)
	}
	return []netip.Addr{at(0), at(size / 2), at(size - 1)}
}

// leadsHome reports whether a route leads to a link of this driver.
func (n *routing) leadsHome(r netlink.Route) bool {
	return slices.ContainsFunc(n.links, func(l netlink.Link) bool { return l.Attrs().Index == r.LinkIndex && isOurs(l) })
}

// consulted reports whether the kernel uses a table for the node's own packets. The result is false for the tables of
// VRFs.
func (n *routing) consulted(table int) bool {
	switch table {
	case unix.RT_TABLE_LOCAL, unix.RT_TABLE_MAIN, unix.RT_TABLE_DEFAULT:
		return true
	}
	return slices.ContainsFunc(n.rules, func(r netlink.Rule) bool { return r.Table == table })
}

// describe completes "10.1.0.0/16 is …".
func (n *routing) describe(r netlink.Route) string {
	how := map[int]string{
		unix.RTN_BLACKHOLE: "dropped (blackhole)", unix.RTN_UNREACHABLE: "unreachable by a route",
		unix.RTN_PROHIBIT: "prohibited by a route",
	}[r.Type]
	if how == "" {
		how = "routed"
		if names := n.names(r); names != "" {
			how = "behind " + names
		}
	}
	if r.Table != unix.RT_TABLE_MAIN && r.Table != unix.RT_TABLE_UNSPEC {
		how += fmt.Sprintf(" (table %d)", r.Table)
	}
	return how
}

// names returns the interfaces of a route.
func (n *routing) names(r netlink.Route) string {
	indexes := []int{r.LinkIndex}
	for _, hop := range r.MultiPath {
		indexes = append(indexes, hop.LinkIndex)
	}
	var names []string
	for _, l := range n.links {
		if slices.Contains(indexes, l.Attrs().Index) {
			names = append(names, l.Attrs().Name)
		}
	}
	return strings.Join(names, " and ")
}
