package netconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// card is a network card in use. The lock of the network guards waits, has and next.
type card struct {
	link   netlink.Link // the VLAN's link, if the card is in a VLAN
	chosen bool         // whether VLAN, Addresses and Gateways of the settings apply to this card
	waits  [families]progress.Wait
	has    [families][]netip.Prefix
	next   string // remedy if the card is unusable, "" otherwise
	mtu    int    // from the latest DHCP lease
}

// Address families.
const (
	v4 = iota
	v6
	families
)

// addressesShown limits the addresses shown for one card. Routers can advertise more.
const addressesShown = 4

// String returns the card's addresses, or the reason why it has no address. The caller holds the lock of the network.
func (c *card) String() string {
	text := fmt.Sprintf("%s (%s)", c.link.Attrs().Name, c.link.Attrs().HardwareAddr)
	if has := slices.Concat(c.has[:]...); len(has) > 0 {
		return text + " has " + addressList(has)
	}
	var waits []string
	for _, one := range c.waits {
		if one.Text != "" {
			waits = append(waits, one.Text)
		}
	}
	if len(waits) == 0 {
		return text + " found"
	}
	return text + " " + strings.Join(waits, ", ")
}

func addressList(all []netip.Prefix) string {
	var texts []string
	for _, one := range all[:min(len(all), addressesShown)] {
		texts = append(texts, one.String())
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// waiting returns the pending waits of the card. The caller holds the lock of the network.
func (c *card) waiting() (all []progress.Wait) {
	name := fmt.Sprintf("%s (%s)", c.name(), c.link.Attrs().HardwareAddr)
	for _, one := range c.waits {
		if one.Text == "" || c.waits[v4].Text == noCarrier && len(all) > 0 {
			continue
		}
		one.Text = name + " " + one.Text
		all, name = append(all, one), c.name()
	}
	if len(all) == 0 {
		all = []progress.Wait{{Text: name + " was found", Limit: otherCards}}
	}
	return all
}

// Limits of waits for an address without a timeout.
var (
	cableLimit = progress.Limit{Then: "it continues when a cable is plugged in"}
	otherCards = progress.Limit{Then: "the first address of any card counts"}
)

// waits records the reason why a card has no address in a family. Pages show it until the card has an address.
func (s *cardSet) waits(c *card, family int, l progress.Limit, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.waits[family] = progress.Wait{Text: fmt.Sprintf(format, args...), Limit: l, Since: time.Now()}
}

// advise records the remedy for an unusable card.
func (s *cardSet) advise(c *card, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.next = next
}

// has records the addresses of a card in a family.
func (s *cardSet) has(c *card, family int, addresses ...netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.has[family] = addresses
}

// unmatched returns a message if no card has the name or address of the settings, and "" otherwise.
func (s *cardSet) unmatched(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cards {
		if c.chosen {
			return ""
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("no card matches writ.interface=%s", name)
}

// serveCard configures the addresses of a card and maintains them until the card is removed.
func (n *Network) serveCard(ctx context.Context, c *card) {
	if c.chosen && n.settings.VLAN != 0 {
		if err := n.enterVLAN(c); err != nil {
			n.waits(c, v4, otherCards, "cannot be used: %v", err)
			n.advise(c, progress.HintOf(err))
			n.Fail("network", err)
			return
		}
	}
	asks := !c.chosen || len(n.settings.Addresses) == 0
	ipv6, err := n.watchIPv6(c, asks) // before the card is up, so that no advertisement is missed
	if err != nil {
		n.Fail("network", err)
	}
	if err := netlink.LinkSetUp(c.link); err != nil {
		n.waits(c, v4, otherCards, "cannot be turned on: %v", err)
		if ipv6 != nil {
			ipv6.close()
		}
		return
	}
	if ipv6 != nil {
		n.work.Go(func() { ipv6.run(ctx) })
	}
	if asks {
		n.serveIPv4(ctx, c)
		return
	}
	n.configure(ctx, c)
}

// configure applies the addresses of the settings to a card. IPv6 addresses are announced later, once the kernel has
// checked that no other machine uses them.
func (n *Network) configure(ctx context.Context, c *card) {
	var ipv4 []netip.Prefix
	for _, address := range n.settings.Addresses {
		if err := c.addAddress(lease{address: address}); err != nil {
			n.Fail("network", err)
			continue
		}
		if address.Addr().Is4() {
			ipv4 = append(ipv4, address)
		}
	}
	for _, gateway := range n.settings.Gateways {
		if err := c.addGateway(gateway); err != nil {
			n.Fail("network", err)
		}
	}
	if err := n.resolve(c, byDHCP, nil); err != nil {
		n.Fail("network", err)
	}
	if len(ipv4) > 0 {
		n.has(c, v4, ipv4...)
		n.tell(ctx, "%s %s%s, as configured", c.name(), addressList(ipv4), n.settings.gatewayText(netip.Addr.Is4))
	}
}

func (c *card) name() string { return c.link.Attrs().Name }

// addAddress adds an address to a card, or updates the lifetime of an existing one.
func (c *card) addAddress(l lease) error {
	address := &netlink.Addr{IPNet: ipNet(l.address)}
	if l.address.Addr().Is6() {
		address.ValidLft, address.PreferedLft = int(l.valid.Seconds()), int(l.preferred.Seconds())
	}
	if err := netlink.AddrReplace(c.link, address); err != nil {
		return fmt.Errorf("add the address %s to %s: %w", l.address, c.name(), err)
	}
	return nil
}

// addGateway adds the default route of a card. The route is on-link, because some clouds assign a /32 whose gateway is
// outside the network.
func (c *card) addGateway(gateway netip.Addr) error {
	index := c.link.Attrs().Index
	route := &netlink.Route{LinkIndex: index, Gw: gateway.AsSlice(), Priority: 1024 + index}
	if gateway.Is4() {
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("add the route by %s to %s: %w", gateway, c.name(), err)
	}
	return nil
}

// serveIPv4 requests DHCP leases for a card until ctx ends or the card is removed. It keeps the text of the last
// failure while it retries: a text that changes with each attempt would look like a new failure.
func (n *Network) serveIPv4(ctx context.Context, c *card) {
	const asks = "asks for an address by DHCP"
	for text := asks; ctx.Err() == nil; {
		carrier, there := c.carrier()
		if !there {
			n.lose(c)
			return
		}
		if !carrier {
			n.waits(c, v4, cableLimit, noCarrier)
			text = asks
			_ = sleep.For(ctx, 50*time.Millisecond)
			continue
		}
		n.waits(c, v4, askLimit, "%s", text)
		if err := n.leases(ctx, c); err != nil {
			text = fmt.Sprintf("got no address by DHCP: %v", err)
			n.waits(c, v4, askLimit, "%s", text)
			_ = sleep.For(ctx, time.Second)
		}
	}
}

// carrier reports whether the card has a link partner, and whether the card exists.
func (c *card) carrier() (carrier, there bool) {
	now, err := netlink.LinkByIndex(c.link.Attrs().Index)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return false, false
	}
	return err == nil && now.Attrs().RawFlags&unix.IFF_LOWER_UP != 0, true
}

// lose removes a card that was unplugged, for example from USB. A card plugged in later is a new card.
func (n *Network) lose(c *card) {
	n.mu.Lock()
	maps.DeleteFunc(n.cards, func(_ int, one *card) bool { return one == c })
	n.mu.Unlock()
	n.resolver.forget(c.link.Attrs().Index)
	n.Stage("network", "%s is gone", c.name())
	if err := n.resolve(c, byDHCP, nil); err != nil {
		n.Fail("network", err)
	}
}
