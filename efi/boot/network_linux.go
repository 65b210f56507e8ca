package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/sleep"
)

// The paces of the network.
const (
	lookEvery   = time.Second // for cards that come late, until there is a network; then lookLater
	lookLater   = 30 * time.Second
	tellEvery   = 10 * time.Second // that there is no network yet
	answerIn    = time.Second      // a DHCP server, at first; each repetition waits for longer
	leaseAtMost = 24 * time.Hour   // of leases without an end
)

// network is the cards of the machine that were found.
type network struct {
	mu          sync.Mutex
	cards       map[int]*card // by index
	nameservers map[int][]netip.Addr
	up          chan string // what cards got

	etc    string             // where resolv.conf is
	rename func([]byte) error // gives the machine its name
}

// card is a network card that is served.
type card struct {
	link  netlink.Link
	state string // for people
}

// lease is what a card is to get.
type lease struct {
	address     netip.Prefix
	gateway     netip.Addr
	nameservers []netip.Addr
	mtu         int
	hostname    string
	valid       time.Duration // 0 for ever
}

func (n *network) init(etc string, rename func([]byte) error) {
	n.cards, n.nameservers, n.up = map[int]*card{}, map[int][]netip.Addr{}, make(chan string, 16)
	n.etc, n.rename = etc, rename
}

// connect serves all network cards, and returns when the first has an address.
func (m *machine) connect(ctx context.Context) error {
	m.network.init("/etc", unix.Sethostname)
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo)
	}
	m.findCards(ctx)
	m.setName("")
	look, tell := time.NewTicker(lookEvery), time.NewTicker(tellEvery)
	defer look.Stop()
	defer tell.Stop()
	for {
		select {
		case got := <-m.network.up:
			m.stage("network", "%s", got)
			m.work.Go(func() { m.keepLooking(ctx) })
			return nil
		case <-look.C:
			m.findCards(ctx)
		case <-tell.C:
			m.stage("network", "no address yet: %s", m.network.String())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepLooking serves cards that come later.
func (m *machine) keepLooking(ctx context.Context) {
	look := time.NewTicker(lookLater)
	defer look.Stop()
	for {
		select {
		case got := <-m.network.up:
			m.stage("network", "%s", got)
		case <-look.C:
			m.findCards(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// findCards begins to serve cards that are new. All are served at once: one without a cable must not delay the others.
func (m *machine) findCards(ctx context.Context) {
	if m.loader != nil {
		if _, err := m.loader.all(); err != nil {
			m.fail("modules", err)
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		m.fail("network", err)
		return
	}
	for _, link := range links {
		attrs := link.Attrs()
		if _, err := os.Stat("/sys/class/net/" + attrs.Name + "/device"); err != nil {
			continue // loopback, and what programs made
		}
		m.network.mu.Lock()
		known := m.network.cards[attrs.Index] != nil
		if !known {
			m.network.cards[attrs.Index] = &card{link: link, state: "found"}
		}
		m.network.mu.Unlock()
		if !known {
			m.work.Go(func() { m.serveCard(ctx, link) })
		}
	}
}

// String says of each card what it waits for.
func (n *network) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cards) == 0 {
		return "no network card was found; the image may lack its driver"
	}
	var all []string
	for _, c := range n.cards {
		all = append(all, fmt.Sprintf("%s (%s) %s", c.link.Attrs().Name, c.link.Attrs().HardwareAddr, c.state))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// firstCard is the hardware address by which the machine is named.
func (n *network) firstCard() (address net.HardwareAddr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := 0
	for index, c := range n.cards {
		if first == 0 || index < first {
			first, address = index, c.link.Attrs().HardwareAddr
		}
	}
	return address
}

// tell tells what a card got.
func (n *network) tell(ctx context.Context, got string) {
	select {
	case n.up <- got:
	case <-ctx.Done():
	}
}

func (n *network) state(link netlink.Link, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cards[link.Attrs().Index].state = fmt.Sprintf(format, args...)
}

// isFor reports whether the address of the configuration is that of a card.
func (c *Config) isFor(name string, address net.HardwareAddr) bool {
	return c.Address.IsValid() && (c.Interface == "" || c.Interface == name || c.Interface == address.String())
}

// serveCard gives a card its address, and keeps that.
func (m *machine) serveCard(ctx context.Context, link netlink.Link) {
	attrs := link.Attrs()
	if err := netlink.LinkSetUp(link); err != nil {
		m.network.state(link, "cannot be turned on: %v", err)
		return
	}
	if m.config.isFor(attrs.Name, attrs.HardwareAddr) {
		l := lease{address: m.config.Address, gateway: m.config.Gateway, nameservers: m.config.Nameservers}
		if err := m.apply(link, l); err != nil {
			m.network.state(link, "cannot get %s: %v", l.address, err)
			return
		}
		m.network.state(link, "has %s", l.address)
		m.network.tell(ctx, fmt.Sprintf("%s %s, as configured", attrs.Name, l))
		return
	}
	for ctx.Err() == nil {
		if !carrier(attrs.Name) {
			m.network.state(link, "has no carrier")
			_ = sleep.For(ctx, 50*time.Millisecond)
			continue
		}
		m.network.state(link, "asks for an address by DHCP")
		if err := m.leases(ctx, link); err != nil {
			m.network.state(link, "got no address by DHCP: %v", err)
			_ = sleep.For(ctx, time.Second)
		}
	}
}

func carrier(name string) bool {
	text, err := os.ReadFile("/sys/class/net/" + name + "/carrier")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// leases gets a lease and renews it until it is lost.
func (m *machine) leases(ctx context.Context, link netlink.Link) error {
	name := link.Attrs().Name
	client, err := nclient4.New(name, nclient4.WithTimeout(answerIn), nclient4.WithRetry(4))
	if err != nil {
		return err
	}
	defer client.Close()
	options := []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
		dhcpv4.OptionHostName, dhcpv4.OptionInterfaceMTU)}
	if m.config.Name != "" {
		options = append(options, dhcpv4.WithOption(dhcpv4.OptHostName(m.config.Name)))
	}
	given, err := client.Request(ctx, options...)
	if err != nil {
		return err
	}
	had := lease{}
	for told := false; ; told = true {
		l, err := readLease(given.ACK)
		if err != nil {
			return err
		}
		if had.address.IsValid() && had.address != l.address {
			m.remove(link, had)
			told = false
		}
		if err := m.apply(link, l); err != nil {
			return err
		}
		had = l
		if !told {
			m.setName(l.hostname)
			m.network.state(link, "has %s", l.address)
			m.network.tell(ctx, fmt.Sprintf("%s %s, by DHCP from %s for %s", name, l, given.ACK.ServerIdentifier(), l.valid))
		}
		if given, err = renew(ctx, client, given, l.valid, options); err != nil {
			if ctx.Err() == nil { // else the machine is turned off, and its last words go by this address
				m.remove(link, l)
				m.stage("network", "%s has lost %s: %v", name, l.address, err)
			}
			return err
		}
	}
}

// renew waits for half of a lease, and asks for more until it is over.
func renew(ctx context.Context, client *nclient4.Client, given *nclient4.Lease, valid time.Duration, options []dhcpv4.Modifier) (*nclient4.Lease, error) {
	end := time.Now().Add(valid)
	for left := valid; ; left = time.Until(end) {
		if err := sleep.For(ctx, max(left/2, answerIn)); err != nil {
			return nil, err
		}
		next, err := client.Renew(ctx, given, options...)
		refused, nak := errors.AsType[*nclient4.ErrNak](err)
		switch {
		case err == nil:
			return next, nil
		case nak:
			return nil, refused
		case time.Now().After(end):
			return nil, fmt.Errorf("the lease is over: %w", err)
		}
	}
}

// readLease reads what a DHCP server has given.
func readLease(ack *dhcpv4.DHCPv4) (lease, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || !address.IsValid() || address.IsUnspecified() || bits != 32 {
		return lease{}, fmt.Errorf("the DHCP server %s gave %s with the mask %s, which is no address of a host", ack.ServerIdentifier(), ack.YourIPAddr, ack.SubnetMask())
	}
	l := lease{address: netip.PrefixFrom(address, ones), hostname: strings.ToLower(ack.HostName()), valid: min(ack.IPAddressLeaseTime(leaseAtMost), leaseAtMost)}
	if routers := ack.Router(); len(routers) > 0 {
		l.gateway, _ = netip.AddrFromSlice(routers[0].To4())
	}
	for _, server := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(server.To4()); ok {
			l.nameservers = append(l.nameservers, a)
		}
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil && mtu >= 576 {
		l.mtu = int(mtu)
	}
	return l, nil
}

// String says what a card got.
func (l lease) String() string {
	text := l.address.String()
	if l.gateway.IsValid() {
		text += ", gateway " + l.gateway.String()
	}
	return text
}

// apply gives a card what it is to get. It may have it already.
func (m *machine) apply(link netlink.Link, l lease) error {
	if l.mtu != 0 {
		if err := netlink.LinkSetMTU(link, l.mtu); err != nil {
			return fmt.Errorf("set the MTU %d: %w", l.mtu, err)
		}
	}
	if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: ipNet(l.address)}); err != nil {
		return fmt.Errorf("add the address %s: %w", l.address, err)
	}
	if l.gateway.IsValid() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: l.gateway.AsSlice(), Priority: 1024 + link.Attrs().Index}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("add the route by %s: %w", l.gateway, err)
		}
	}
	return m.resolve(link, l.nameservers)
}

// remove takes from a card what it has no longer.
func (m *machine) remove(link netlink.Link, l lease) {
	_ = netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(l.address)}) // and with it the routes
	_ = m.resolve(link, nil)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// resolve tells programs the nameservers of a card, after those of the configuration and of earlier cards.
func (m *machine) resolve(link netlink.Link, servers []netip.Addr) error {
	m.network.mu.Lock()
	defer m.network.mu.Unlock()
	m.network.nameservers[link.Attrs().Index] = servers
	var text strings.Builder
	for _, server := range resolvers(m.config.Nameservers, m.network.nameservers) {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	file := filepath.Join(m.network.etc, "resolv.conf")
	if err := os.WriteFile(file+".new", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// resolvers are all nameservers, each once: those of the configuration first, then by the cards' indexes.
func resolvers(configured []netip.Addr, byCard map[int][]netip.Addr) []netip.Addr {
	all := slices.Clone(configured)
	for _, index := range slices.Sorted(maps.Keys(byCard)) {
		for _, one := range byCard[index] {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// setName gives the machine its name: the one of the configuration, one that DHCP tells, or that of its first card.
func (m *machine) setName(told string) {
	short, _, _ := strings.Cut(told, ".")
	if !writ.ValidName(short) {
		short = ""
	}
	_ = m.network.rename([]byte(cmp.Or(m.config.Name, short, nameFor(m.network.firstCard()))))
}
