package netdev

import (
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

// configureInterfaces configures addresses and routes of the interfaces in a namespace.
func (h *host) configureInterfaces(namespace string, ports []sal.Port) error {
	there, closeThere, err := handleAt(namespace)
	if err != nil {
		return err
	}
	defer closeThere()
	lo, err := there.LinkByName("lo")
	if err == nil && lo.Attrs().RawFlags&unix.IFF_UP == 0 {
		h.step("set the loopback interface up")
		err = there.LinkSetUp(lo)
	}
	if err != nil {
		return err
	}
	outside := false // only one interface has the IPv4 default route
	for i, p := range ports {
		l, err := there.LinkByName(p.Device)
		if err != nil {
			return err
		}
		if err := h.applyShape(there, l, shape{mac: p.MAC}); err != nil {
			return err
		}
		want := []netip.Prefix{p.IPv6}
		if p.IPv4.IsValid() {
			want = append(want, p.IPv4)
		}
		if err := h.address(there, l, want...); err != nil {
			return err
		}
		if err := h.route(there, l, overlayRange, p.Gateway, unix.RT_TABLE_MAIN, i); err != nil {
			return err
		}
		if i > 0 {
			if err := h.route(there, l, overlayRange, p.Gateway, firstMetric+i, 0); err != nil {
				return err
			}
		}
		if p.Router.IsValid() && !outside {
			outside = true
			outward := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if err := h.route(there, l, outward, p.Router, unix.RT_TABLE_MAIN, 0); err != nil {
				return err
			}
		}
	}
	return h.routeReplies(there, ports)
}

// firstMetric is the metric of the overlay route of a namespace's first interface. Each further interface has the next
// number, which is also the number of its routing table.
const firstMetric = 1024

// route makes a link have exactly one route to a range in a table: through a gateway, with the metric of its rank.
func (h *host) route(
	kernel *netlink.Handle, l netlink.Link, to netip.Prefix, gateway netip.Addr, table, rank int,
) error {
	want := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: netOf(to), Gw: gateway.AsSlice(), Priority: firstMetric + rank, Table: table,
	}
	family := netlink.FAMILY_V6
	if to.Addr().Is4() {
		family = netlink.FAMILY_V4
	}
	all, err := kernel.RouteListFiltered(family, want, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r netlink.Route) bool { return !sameRange(r, want) })
	isWanted := func(r netlink.Route) bool { return r.Gw.Equal(want.Gw) && r.Priority == want.Priority }
	if !slices.ContainsFunc(all, isWanted) {
		h.step("add a route")
		h.repaired("a route to %s was missing", want.Dst)
		if err := kernel.RouteReplace(want); err != nil {
			return err
		}
	}
	for _, r := range all {
		if isWanted(r) {
			continue
		}
		h.step("remove a route")
		if err := ignoring(kernel.RouteDel(&r), unix.ESRCH); err != nil {
			return err
		}
	}
	return nil
}

// routeReplies makes replies leave through the interface on which the request arrived. On another network, their source
// address would be rejected as spoofed. Replies from the first interface need no rule: it has the preferred route.
func (h *host) routeReplies(kernel *netlink.Handle, ports []sal.Port) error {
	missing := map[netip.Prefix]int{} // tables by source address
	for i, p := range ports {
		if i > 0 {
			missing[netip.PrefixFrom(p.IPv6.Addr(), 128)] = firstMetric + i
		}
	}
	rules, err := kernel.RuleList(netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.Src == nil || r.Table <= firstMetric || !overlayRange.Overlaps(prefixOf(r.Src)) {
			continue // not a rule of this function
		}
		if from := prefixOf(r.Src); missing[from] == r.Table {
			delete(missing, from)
			continue
		}
		h.step("remove a rule for routes")
		if err := ignoring(kernel.RuleDel(&r), unix.ENOENT); err != nil {
			return err
		}
	}
	for from, table := range missing {
		rule := netlink.NewRule()
		rule.Family, rule.Src, rule.Table = netlink.FAMILY_V6, netOf(from), table
		h.step("add a rule for routes")
		if err := kernel.RuleAdd(rule); err != nil {
			return err
		}
	}
	return nil
}

// sameRange reports whether two routes have the same destination. The kernel omits the destination of a default route.
func sameRange(is netlink.Route, want *netlink.Route) bool {
	if is.Dst == nil {
		ones, _ := want.Dst.Mask.Size()
		return ones == 0
	}
	return is.Dst.String() == want.Dst.String()
}
