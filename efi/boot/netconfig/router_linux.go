package netconfig

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"

	"writ"
)

const (
	// forEver is the infinite lifetime of IPv6.
	forEver = math.MaxUint32 * time.Second
	// serversAtMost limits the nameservers per card that routers advertise. Programs query at most three.
	serversAtMost = 3
)

// advertisement is a router advertisement with its sender.
type advertisement struct {
	*ndp.RouterAdvertisement
	from netip.Addr
}

// hearRouters returns the router advertisements that a card receives, until done is closed. The card may still be down.
func hearRouters(link netlink.Link, done <-chan struct{}) (<-chan advertisement, error) {
	attrs := link.Attrs()
	conn, _, err := ndp.Listen(&net.Interface{
		Index: attrs.Index, MTU: attrs.MTU, Name: attrs.Name, HardwareAddr: attrs.HardwareAddr,
	}, ndp.Unspecified)
	if err != nil {
		return nil, err
	}
	only := ipv6.ICMPFilter{}
	only.SetAll(true)
	only.Accept(ipv6.ICMPTypeRouterAdvertisement)
	err = errors.Join(conn.SetICMPFilter(&only), conn.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagInterface, true),
		conn.JoinGroup(netip.IPv6LinkLocalAllNodes()))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() { <-done; _ = conn.Close() }()
	heard := make(chan advertisement)
	go func() {
		for {
			message, about, from, err := conn.ReadFrom()
			if err != nil { // closed, or the card was removed
				select {
				case <-time.After(answerIn):
					continue
				case <-done:
					return
				}
			}
			said, ok := message.(*ndp.RouterAdvertisement)
			if !ok || !isOfLink(about, attrs.Index, from) {
				continue
			}
			select {
			case heard <- advertisement{said, from}:
			case <-done:
				return
			}
		}
	}()
	return heard, nil
}

// isOfLink reports whether a message comes from a neighbour. A forwarded message has a lower hop limit, and routers do
// not forward messages with a link-local sender.
func isOfLink(about *ipv6.ControlMessage, index int, from netip.Addr) bool {
	return about != nil && about.IfIndex == index && about.HopLimit == ndp.HopLimit && from.IsLinkLocalUnicast()
}

// use returns the purpose of DHCPv6 for hosts, according to the router.
func (a advertisement) use() dhcpv6Use {
	switch {
	case a.ManagedConfiguration:
		return forAddresses
	case a.OtherConfiguration:
		return forNameservers
	}
	return forNothing
}

// givesAddresses reports whether the kernel derives addresses from the advertisement.
func (a advertisement) givesAddresses() bool {
	return slices.ContainsFunc(a.Options, func(o ndp.Option) bool {
		prefix, ok := o.(*ndp.PrefixInformation)
		return ok && prefix.AutonomousAddressConfiguration && prefix.ValidLifetime > 0
	})
}

// advertised holds the nameservers that routers advertised, each with the time of its expiry.
type advertised map[netip.Addr]time.Time

// hear applies the nameservers of an advertisement and reports whether the list changed.
func (s advertised) hear(a advertisement, now time.Time) (changed bool) {
	before := s.list()
	for _, option := range a.Options {
		said, ok := option.(*ndp.RecursiveDNSServer)
		if !ok {
			continue
		}
		for _, server := range said.Servers {
			if server.IsLinkLocalUnicast() {
				server = server.WithZone(a.from.Zone())
			}
			switch {
			case said.Lifetime <= 0:
				delete(s, server)
			case server.IsGlobalUnicast() || server.IsLinkLocalUnicast():
				s[server] = now.Add(said.Lifetime)
			}
		}
	}
	s.forget(now)
	s.bound()
	return !slices.Equal(before, s.list())
}

// forget removes expired nameservers and reports whether there were any.
func (s advertised) forget(now time.Time) (some bool) {
	before := len(s)
	maps.DeleteFunc(s, func(_ netip.Addr, end time.Time) bool { return end.Before(now) })
	return len(s) < before
}

// bound removes the nameservers that expire first if there are more than serversAtMost.
func (s advertised) bound() {
	byEnd := slices.SortedFunc(maps.Keys(s),
		func(a, b netip.Addr) int { return cmp.Or(s[b].Compare(s[a]), a.Compare(b)) })
	for _, server := range byEnd[min(len(byEnd), serversAtMost):] {
		delete(s, server)
	}
}

// list returns the nameservers ordered by address.
func (s advertised) list() []netip.Addr { return slices.SortedFunc(maps.Keys(s), netip.Addr.Compare) }

// addressTaken returns the error for an address that another machine uses.
func addressTaken(name string, address netip.Addr) error {
	err := writ.Errorf(writ.CodeUsage, "%s does not use %s: another machine on its network uses this address", name,
		address)
	if address.IsLinkLocalUnicast() {
		return err.WithHint("two cards have the same hardware address; change one of them, otherwise this card has no IPv6")
	}
	return err.WithHint("give one of the two another address by writ.address or by the DHCPv6 server")
}
