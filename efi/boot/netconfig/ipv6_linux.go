package netconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ/efi/progress"
)

// ipv6Watch tracks the IPv6 addresses of a card. The kernel solicits routers, derives addresses from their
// advertisements and detects duplicates. The watch adds nameservers, DHCPv6 if a router requests it, and reports to
// people.
type ipv6Watch struct {
	*Network
	card      *card
	asks      bool                 // whether to solicit addresses; otherwise the card has the addresses of the settings
	routers   <-chan advertisement // nil if asks is false
	addresses chan netlink.AddrUpdate
	done      chan struct{}

	gateway netip.Addr          // the router of the latest advertisement
	servers advertised          // nameservers
	told    []netip.Prefix      // announced addresses
	twice   map[netip.Addr]bool // announced duplicates: addresses that another machine uses
	lost    netip.Addr          // the latest duplicate
	unsub   chan struct{}       // closing it ends the kernel's notifications

	dhcp  dhcpv6Use
	end   context.CancelFunc // cancels the current use of DHCPv6
	taken chan netip.Addr    // DHCPv6 addresses that another machine uses
}

// dhcpv6Use is the purpose of DHCPv6 in a router's advertisement. A greater value includes the purposes of smaller
// values.
type dhcpv6Use int

const (
	forNothing dhcpv6Use = iota
	forNameservers
	forAddresses
)

// takenTold limits the duplicates reported per card. A stranger on the network can claim any address that it advertised
// itself.
const takenTold = 16

// watchIPv6 prepares a card for IPv6 before it is brought up. It returns nil if the kernel has no IPv6.
func (n *Network) watchIPv6(c *card, asks bool) (*ipv6Watch, error) {
	// The runner may turn the machine into a router, and a router accepts advertisements only with accept_ra=2. A card
	// with configured addresses accepts no advertisements.
	hear := map[string]string{"accept_ra": "2", "autoconf": "1"}
	if !asks {
		hear = map[string]string{"accept_ra": "0", "autoconf": "0"}
	}
	for name, value := range hear {
		if err := c.setIPv6(name, value); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("prepare %s for IPv6: %w", c.name(), err)
		}
	}
	s := &ipv6Watch{
		Network: n, card: c, asks: asks, done: make(chan struct{}), servers: advertised{}, twice: map[netip.Addr]bool{},
		taken: make(chan netip.Addr, 1),
	}
	if err := s.subscribe(); err != nil {
		return nil, fmt.Errorf("watch the addresses of %s: %w", c.name(), err)
	}
	if asks {
		var err error
		if s.routers, err = hearRouters(c.link, s.done); err != nil {
			s.close()
			return nil, fmt.Errorf("listen for routers on %s: %w", c.name(), err)
		}
		n.waits(c, v6, otherCards, "receives no IPv6 router advertisement")
	}
	return s, nil
}

// setIPv6 sets an IPv6 sysctl of a card.
func (c *card) setIPv6(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", c.name(), name), []byte(value), 0)
}

// subscribe subscribes to address changes and ends the previous subscription.
func (s *ipv6Watch) subscribe() error {
	s.unsubscribe()
	addresses, end := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	if err := netlink.AddrSubscribe(addresses, end); err != nil {
		return err
	}
	s.addresses, s.unsub = addresses, end
	return nil
}

func (s *ipv6Watch) unsubscribe() {
	if s.unsub == nil {
		return
	}
	close(s.unsub)
	for range s.addresses { // drain until it is closed
	}
	s.addresses, s.unsub = nil, nil
}

// run tracks the card until ctx ends or the card is removed.
func (s *ipv6Watch) run(ctx context.Context) {
	defer s.close()
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	forget := time.NewTicker(lookLater)
	defer forget.Stop()
	s.look(ctx, netlink.AddrUpdate{})
	for {
		select {
		case a := <-s.routers:
			s.hear(ctx, a)
		case change, ok := <-s.addresses:
			if !ok { // the kernel drops a subscriber that was too slow
				if err := s.subscribe(); err != nil {
					s.Fail("network", fmt.Errorf("watch the addresses of %s: %w", s.card.name(), err))
					return
				}
			}
			if !ok || change.LinkIndex == s.card.link.Attrs().Index && change.LinkAddress.IP.To4() == nil {
				s.look(ctx, change)
			}
		case <-forget.C:
			if _, there := s.card.carrier(); !there {
				return
			}
			if s.servers.forget(time.Now()) {
				s.resolveAdvertised()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *ipv6Watch) close() {
	close(s.done)
	s.unsubscribe()
}

// hear handles the parts of a router advertisement that the kernel does not handle.
func (s *ipv6Watch) hear(ctx context.Context, a advertisement) {
	if a.RouterLifetime > 0 {
		s.gateway = a.from.WithZone("")
	}
	if s.servers.hear(a, time.Now()) {
		s.resolveAdvertised()
	}
	if len(s.told) == 0 && !a.givesAddresses() && !a.ManagedConfiguration {
		s.waits(s.card, v6, otherCards, "has a router %s, which advertises no addresses", a.from)
	}
	if use := a.use(); use > s.dhcp {
		if s.end != nil {
			s.end()
		}
		var using context.Context
		using, s.end = context.WithCancel(ctx)
		s.dhcp = use
		s.work.Go(func() { s.useDHCPv6(using, use) })
	}
}

func (s *ipv6Watch) resolveAdvertised() {
	if err := s.resolve(s.card, byRouter, s.servers.list()); err != nil {
		s.Fail("network", err)
	}
}

// look compares the addresses of the card with the announced addresses after a change, and announces differences.
func (s *ipv6Watch) look(ctx context.Context, change netlink.AddrUpdate) {
	if change.Flags&unix.IFA_F_DADFAILED != 0 {
		s.hasAnother(change.LinkAddress)
	}
	all, err := listed(func() ([]netlink.Addr, error) { return netlink.AddrList(s.card.link, netlink.FAMILY_V6) })
	if err != nil {
		s.Fail("network", fmt.Errorf("list the addresses of %s: %w", s.card.name(), err))
		return
	}
	var has []netip.Prefix
	var news []string
	tests := false
	for _, one := range all {
		address, ok := netip.AddrFromSlice(one.IP)
		bits, _ := one.Mask.Size()
		prefix := netip.PrefixFrom(address, bits)
		switch {
		case !ok || !address.IsGlobalUnicast() || one.Flags&unix.IFA_F_DADFAILED != 0:
			continue
		case one.Flags&unix.IFA_F_TENTATIVE != 0:
			if tests = true; len(s.told) == 0 {
				s.waits(s.card, v6, progress.Limit{Then: "the kernel asks the network"},
					"checks that no other machine uses %s", address)
			}
			continue
		}
		has = append(has, prefix)
		if !slices.Contains(s.told, prefix) {
			news = append(news,
				fmt.Sprintf("%s %s%s, %s", s.card.name(), prefix, s.gatewayText(), s.origin(prefix, one.ValidLft)))
		}
	}
	for _, prefix := range s.told {
		if !slices.Contains(has, prefix) {
			s.tellLost("%s has lost %s", s.card.name(), prefix)
		}
	}
	if len(has) == 0 && !tests && s.lost.IsValid() {
		s.waits(s.card, v6, otherCards, "does not use %s: another machine on its network uses this address",
			s.lost)
	}
	s.told = has
	s.has(s.card, v6, has...)
	for _, one := range news {
		s.tell(ctx, "%s", one)
	}
}

// hasAnother reports a duplicate: another machine on the network uses this address, so the card does not use it.
func (s *ipv6Watch) hasAnother(of net.IPNet) {
	address, ok := netip.AddrFromSlice(of.IP)
	if !ok {
		return
	}
	if bits, _ := of.Mask.Size(); bits == address.BitLen() && s.dhcp == forAddresses {
		select {
		case s.taken <- address:
		default: // an earlier address is not handled yet
		}
	}
	s.lost = address
	if !s.twice[address] && len(s.twice) < takenTold {
		s.twice[address] = true
		s.Fail("network", addressTaken(s.card.name(), address))
	}
}

func (s *ipv6Watch) gatewayText() string {
	switch {
	case !s.asks:
		return s.settings.gatewayText(netip.Addr.Is6)
	case s.gateway.IsValid():
		return ", gateway " + s.gateway.String()
	}
	return ""
}

// origin describes the source and lifetime of an address. An address with a full-length prefix comes from DHCPv6,
// because the kernel never derives one.
func (s *ipv6Watch) origin(prefix netip.Prefix, seconds int) string {
	var text string
	switch {
	case !s.asks:
		return "as configured"
	case prefix.IsSingleIP():
		text = "by DHCPv6"
	default:
		text = "advertised by a router"
	}
	if time.Duration(seconds)*time.Second >= forEver {
		return text
	}
	return fmt.Sprintf("%s for %s", text, time.Duration(seconds)*time.Second)
}
