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
		if err := h.route(there, l, overlayRange, p.Gateway, i); err != nil {
			return err
		}
		if i > 0 {
			if err := h.routeBack(there, l, p, i); err != nil {
				return err
			}
		}
		if p.Router.IsValid() && !outside {
			outside = true
			if err := h.route(there, l, netip.PrefixFrom(netip.IPv4Unspecified(), 0), p.Router, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstMetric is the metric of the overlay route of a namespace's first interface. Each further interface has the next
// number, which is also the number of its routing table.
const firstMetric = 1024

// route adds a route through a gateway.
func (h *host) route(kernel *netlink.Handle, l netlink.Link, to netip.Prefix, gateway netip.Addr, rank int) error {
	want := &netlink.Route{
		LinkIndex: l.Attrs().Index, Dst: netOf(to), Gw: gateway.AsSlice(), Priority: firstMetric + rank,
	}
	return h.routed(kernel, want, netlink.FAMILY_ALL)
}

// routeBack makes replies leave through the interface on which the request arrived. On another network, their source
// address would be rejected as spoofed.
func (h *host) routeBack(kernel *netlink.Handle, l netlink.Link, p sal.Port, i int) error {
	table := firstMetric + i
	if err := h.routed(kernel,
		&netlink.Route{LinkIndex: l.Attrs().Index, Dst: netOf(overlayRange), Gw: p.Gateway.AsSlice(), Table: table},
		netlink.FAMILY_V6); err != nil {
		return err
	}
	rules, err := kernel.RuleList(netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	from := netip.PrefixFrom(p.IPv6.Addr(), 128)
	if slices.ContainsFunc(rules,
		func(r netlink.Rule) bool { return r.Table == table && r.Src != nil && prefixOf(r.Src) == from }) {
		return nil
	}
	rule := netlink.NewRule()
	rule.Family, rule.Src, rule.Table = netlink.FAMILY_V6, netOf(from), table
	h.step("add a rule for routes")
	return kernel.RuleAdd(rule)
}

// routed adds a route unless it exists.
func (h *host) routed(kernel *netlink.Handle, want *netlink.Route, family int) error {
	if want.Table == 0 {
		want.Table = unix.RT_TABLE_MAIN
	}
	there, err := kernel.RouteListFiltered(family, &netlink.Route{LinkIndex: want.LinkIndex, Table: want.Table},
		netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(there, func(r netlink.Route) bool { return r.Gw.Equal(want.Gw) && sameRange(r, want) }) {
		return nil
	}
	h.step("add a route")
	h.repaired("a route to %s was missing", want.Dst)
	return kernel.RouteReplace(want)
}

// sameRange reports whether two routes have the same destination. The kernel omits the destination of a default route.
func sameRange(is netlink.Route, want *netlink.Route) bool {
	if is.Dst == nil {
		ones, _ := want.Dst.Mask.Size()
		return ones == 0
	}
	return is.Dst.String() == want.Dst.String()
}
