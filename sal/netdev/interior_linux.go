package netdev

import (
	"io/fs"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ/internal/netns"
	"writ/sal"
)

// handleAt opens a netlink handle for another namespace.
func handleAt(namespace string) (*netlink.Handle, func(), error) {
	back, err := netns.Enter(namespace)
	if err != nil {
		return nil, nil, err
	}
	defer back()
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, err
	}
	return kernel, kernel.Close, nil
}

// interior configures the interfaces of an owner in the network namespace of the owner.
type interior struct {
	links
	namespace string // file of the namespace
}

// configure sets addresses and routes of the interfaces on networks, and of the link for published ports, if any.
func (i interior) configure(ports []sal.Port, link *sal.Port) error {
	lo, err := i.kernel.LinkByName("lo")
	if err == nil && lo.Attrs().RawFlags&unix.IFF_UP == 0 {
		i.step("set the loopback interface up")
		err = i.kernel.LinkSetUp(lo)
	}
	if err == nil {
		err = i.enableIPv6("lo")
	}
	if err != nil {
		return err
	}
	outward := false // whether an interface has the IPv4 default route
	var replies []replyRoute
	for rank, p := range ports {
		l, err := i.address(p)
		if err != nil {
			return err
		}
		if err := i.route(l, overlayRange, p.Gateway, unix.RT_TABLE_MAIN, rank); err != nil {
			return err
		}
		if rank > 0 {
			replies = append(replies, replyRoute{l, p.IPv6, overlayRange, p.Gateway, firstMetric + rank})
		}
		switch {
		case !p.Router.IsValid():
		case outward:
			replies = append(replies, replyRoute{l, p.IPv4, everyIPv4, p.Router, firstMetric + rank})
		default:
			outward = true
			if err := i.route(l, everyIPv4, p.Router, unix.RT_TABLE_MAIN, 0); err != nil {
				return err
			}
		}
	}
	if link != nil { // only replies use the default routes of the link
		l, err := i.address(*link)
		if err != nil {
			return err
		}
		replies = append(replies, replyRoute{l, link.IPv4, everyIPv4, link.Router, linkTable},
			replyRoute{l, link.IPv6, everyIPv6, link.Gateway, linkTable})
	}
	return i.routeReplies(replies)
}

// address sets the addresses of an interface and sets it up.
func (i interior) address(p sal.Port) (netlink.Link, error) {
	l, err := i.kernel.LinkByName(p.Device)
	if err != nil {
		return nil, err
	}
	if err := i.apply(l, shape{mac: p.MAC}); err != nil {
		return nil, err
	}
	if err := i.enableIPv6(p.Device); err != nil {
		return nil, err
	}
	want := []netip.Prefix{p.IPv6}
	if p.IPv4.IsValid() {
		want = append(want, p.IPv4)
	}
	return l, i.setAddresses(l, want...)
}

// enableIPv6 enables IPv6 on an interface. It may be disabled, because a new namespace inherits the settings of the
// host if net.core.devconf_inherit_init_net is 1.
func (i interior) enableIPv6(device string) error {
	back, err := netns.Enter(i.namespace)
	if err != nil {
		return err
	}
	defer back()
	return ignoring(i.set("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", "0"), fs.ErrNotExist)
}

// firstMetric is the metric of the overlay route of a namespace's first interface. Each further interface has the next
// number, which is also the number of its routing table.
const firstMetric = 1024

// linkTable is the routing table for replies from the address of a link. Tables of networks have lower numbers.
const linkTable = firstMetric + 100

// everyIPv4 and everyIPv6 are the destinations of default routes.
var (
	everyIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	everyIPv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
)

// route makes a link have exactly one route to a range in a table: through a gateway, with the metric of its rank.
// Without a gateway, the route leads directly to the link.
func (i interior) route(l netlink.Link, to netip.Prefix, gateway netip.Addr, table, rank int) error {
	want := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: netOf(to), Gw: gateway.AsSlice(), Priority: firstMetric + rank, Table: table,
	}
	if !gateway.IsValid() {
		want.Gw, want.Scope = nil, netlink.SCOPE_LINK
	}
	all, err := i.kernel.RouteListFiltered(familyOf(to), want, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r netlink.Route) bool { return !sameRange(r, want) })
	isWanted := func(r netlink.Route) bool { return r.Gw.Equal(want.Gw) && r.Priority == want.Priority }
	if !slices.ContainsFunc(all, isWanted) {
		i.step("add a route")
		i.repaired("a route to %s was missing", want.Dst)
		if err := i.kernel.RouteReplace(want); err != nil {
			return err
		}
	}
	for _, r := range all {
		if isWanted(r) {
			continue
		}
		i.step("remove a route")
		if err := ignoring(i.kernel.RouteDel(&r), unix.ESRCH); err != nil {
			return err
		}
	}
	return nil
}

// replyRoute is the route of replies from an interface whose routes are not in the main table.
type replyRoute struct {
	link    netlink.Link
	from    netip.Prefix // the address, with its network
	to      netip.Prefix
	gateway netip.Addr
	table   int
}

// routeReplies makes replies leave through the interface on which the request arrived. On another network, their source
// address would be rejected as spoofed. Interfaces whose routes are in the main table need no rule.
func (i interior) routeReplies(replies []replyRoute) error {
	missing := map[netip.Prefix]int{} // tables by source address
	for _, r := range replies {
		if err := i.route(r.link, r.from.Masked(), netip.Addr{}, r.table, 0); err != nil {
			return err
		}
		if err := i.route(r.link, r.to, r.gateway, r.table, 0); err != nil {
			return err
		}
		missing[netip.PrefixFrom(r.from.Addr(), r.from.Addr().BitLen())] = r.table
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		if err := i.keepRules(family, missing); err != nil {
			return err
		}
	}
	for from, table := range missing {
		rule := netlink.NewRule()
		rule.Family, rule.Src, rule.Table = familyOf(from), netOf(from), table
		i.step("add a rule for routes")
		if err := i.kernel.RuleAdd(rule); err != nil {
			return err
		}
	}
	return nil
}

// keepRules removes the rules of one family that are not in missing, and deletes the rules that exist from missing.
func (i interior) keepRules(family int, missing map[netip.Prefix]int) error {
	rules, err := i.kernel.RuleList(family)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.Src == nil || r.Table <= firstMetric {
			continue // not a rule of routeReplies
		}
		if from := prefixOf(r.Src); missing[from] == r.Table {
			delete(missing, from)
			continue
		}
		i.step("remove a rule for routes")
		if err := ignoring(i.kernel.RuleDel(&r), unix.ENOENT); err != nil {
			return err
		}
	}
	return nil
}

// familyOf returns the address family of a range.
func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// sameRange reports whether two routes have the same destination. The kernel omits the destination of a default route.
func sameRange(is netlink.Route, want *netlink.Route) bool {
	if is.Dst == nil {
		ones, _ := want.Dst.Mask.Size()
		return ones == 0
	}
	return is.Dst.String() == want.Dst.String()
}
