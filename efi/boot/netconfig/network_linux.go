package netconfig

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

	"github.com/vishvananda/netlink"

	"writ"
	"writ/efi/boot/devices"
	"writ/efi/progress"
	"writ/internal/limit"
)

// Intervals and limits of the network.
const (
	lookEvery = time.Second // between searches for cards until there is a network; then lookLater
	lookLater = 30 * time.Second
	tellEvery = 5 * time.Second // between reports of the missing network
	listTimes = 10              // attempts to list while the kernel changes the entries

	changesAtOnce = 32 // reported changes of addresses in a burst; then one per ten seconds
)

// everyLook describes lookEvery for people.
var everyLook = fmt.Sprintf("every %.0f s", lookEvery.Seconds())

// Host is the part of the first process that the network needs.
type Host interface {
	// Stage reports the progress of a stage.
	Stage(name, format string, args ...any)
	// Fail reports an error of a stage.
	Fail(name string, err error)
	// FailAgain reports an error and how the stage is retried. It returns true if the previous error was the same.
	FailAgain(stage string, err error, goesOn string) (held bool)
}

// Network configures the cards of the machine.
type Network struct {
	Host
	cardSet
	settings *Settings
	Loader   *devices.Loader // nil without modules
	work     *sync.WaitGroup // the goroutines of cards

	resolver resolvConf
	rename   func([]byte) error // sets the host name
}

// cardSet holds the cards of the machine and the reasons why each waits.
type cardSet struct {
	mu    sync.Mutex
	cards map[int]*card // by interface index
	up    chan string   // new addresses, as text
	lines limit.Lines   // rate limit for address changes, which strangers on the network can trigger
}

// lease holds the configuration that one server or router gave to a card.
type lease struct {
	address     netip.Prefix
	gateway     netip.Addr
	nameservers []netip.Addr
	mtu         int
	hostname    string
	valid       time.Duration // the kernel removes an IPv6 address after this time
	preferred   time.Duration // the kernel opens no connections from an IPv6 address after this time
}

// New returns the network of a machine. The settings may change until Connect is called. work counts the goroutines of
// the cards, etc is the directory of resolv.conf, and rename sets the host name.
func New(
	h Host, settings *Settings, work *sync.WaitGroup, etc string, rename func([]byte) error,
) *Network {
	n := &Network{Host: h, settings: settings, work: work}
	n.cards, n.up, n.rename = map[int]*card{}, make(chan string, 16), rename
	n.resolver = resolvConf{file: filepath.Join(etc, "resolv.conf"), learned: map[source][]netip.Addr{}}
	n.lines.AtOnce = changesAtOnce
	return n
}

// Connect starts serving all network cards and returns when the first card has an address. It waits without a limit and
// reports the reason. It returns an error only if ctx ends.
func (n *Network) Connect(ctx context.Context) error {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo)
	}
	n.findCards(ctx)
	n.setName("")
	look, tell := time.NewTicker(lookEvery), time.NewTicker(tellEvery)
	defer look.Stop()
	defer tell.Stop()
	for {
		select {
		case got := <-n.up:
			n.Stage("network", "%s", got)
			n.work.Go(func() { n.keepLooking(ctx) })
			return nil
		case <-look.C:
			n.findCards(ctx)
		case <-tell.C:
			n.FailAgain(progress.StageNetwork, n.noNetwork(n.settings.Interface),
				"it looks for cards and cables every second, and repeats its requests for addresses")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepLooking serves cards that appear later.
func (n *Network) keepLooking(ctx context.Context) {
	look := time.NewTicker(lookLater)
	defer look.Stop()
	for {
		select {
		case got := <-n.up:
			n.Stage("network", "%s", got)
		case <-look.C:
			n.findCards(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// findCards starts serving new cards. Cards are served concurrently, because a card without a cable must not delay
// other cards.
func (n *Network) findCards(ctx context.Context) {
	if n.Loader != nil {
		if _, err := n.Loader.All(); err != nil {
			n.Fail(progress.StageModules, err)
		}
	}
	links, err := listed(netlink.LinkList)
	if err != nil {
		n.Fail("network", err)
		return
	}
	for _, link := range links {
		if _, err := os.Stat("/sys/class/net/" + link.Attrs().Name + "/device"); err != nil {
			continue // loopback or a virtual interface
		}
		if c, found := n.find(link, n.settings.isFor(link.Attrs().Name, link.Attrs().HardwareAddr)); found {
			n.work.Go(func() { n.serveCard(ctx, c) })
		}
	}
}

// listed calls list and repeats it if the kernel's entries changed meanwhile.
func listed[T any](list func() ([]T, error)) (all []T, err error) {
	for range listTimes {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// find registers a card and reports whether it is new.
func (s *cardSet) find(link netlink.Link, chosen bool) (c *card, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := link.Attrs().Index
	if s.cards[index] != nil {
		return nil, false
	}
	c = &card{link: link, chosen: chosen}
	s.cards[index] = c
	return c, true
}

// String describes the addresses or the waits of each card.
func (s *cardSet) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cards) == 0 {
		return "no network card was found"
	}
	var all []string
	for _, c := range s.cards {
		all = append(all, c.String())
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// firstCard returns the hardware address of the card with the lowest index. It determines the default node name.
func (s *cardSet) firstCard() (address net.HardwareAddr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	for index, c := range s.cards {
		if first == 0 || index < first {
			first, address = index, c.link.Attrs().HardwareAddr
		}
	}
	return address
}

// Waiting returns the waits of all cards. Cards with a cable come first.
func (s *cardSet) Waiting() (all []progress.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cards) == 0 {
		return []progress.Wait{{Text: "no network card was found", Limit: progress.Limit{Then: "it looks for cards " + everyLook}}}
	}
	bare := func(c *card) int {
		if c.waits[v4].Text == noCarrier {
			return 1
		}
		return 0
	}
	for _, c := range slices.SortedFunc(maps.Values(s.cards), func(a, b *card) int {
		return cmp.Or(bare(a)-bare(b), a.link.Attrs().Index-b.link.Attrs().Index)
	}) {
		all = append(all, c.waiting()...)
	}
	return all
}

// tell reports a new address of a card.
func (s *cardSet) tell(ctx context.Context, format string, args ...any) {
	text, say := s.change("got", fmt.Sprintf(format, args...))
	if !say {
		return
	}
	select {
	case s.up <- text:
	case <-ctx.Done():
	}
}

// tellLost reports an address that a card lost.
func (n *Network) tellLost(format string, args ...any) {
	if text, say := n.change("lost", fmt.Sprintf(format, args...)); say {
		n.Stage("network", "%s", text)
	}
}

// change applies the rate limit to a change of addresses. It returns the text with the number of suppressed changes,
// and whether to report it.
func (s *cardSet) change(kind, text string) (string, bool) {
	times, say := s.lines.Say(kind, time.Now())
	if times > 1 {
		text += fmt.Sprintf("; %d changes since the last report", times)
	}
	return text, say
}

// String formats the address and the gateway.
func (l lease) String() string {
	text := l.address.String()
	if l.gateway.IsValid() {
		text += ", gateway " + l.gateway.String()
	}
	return text
}

// apply configures a card with a lease. It is idempotent.
func (n *Network) apply(c *card, by way, l lease) error {
	if l.mtu != 0 && l.mtu != c.mtu { // an unsupported MTU is reported once, and the address is used
		c.mtu = l.mtu
		if err := netlink.LinkSetMTU(c.link, l.mtu); err != nil {
			n.Fail("network", fmt.Errorf("set the MTU %d of %s from DHCP: %w", l.mtu, c.name(), err))
		}
	}
	if err := c.addAddress(l); err != nil {
		return err
	}
	if l.gateway.IsValid() {
		if err := c.addGateway(l.gateway); err != nil {
			return err
		}
	}
	return n.resolve(c, by, l.nameservers)
}

// remove removes the address and the nameservers of a lease from a card.
func (n *Network) remove(c *card, by way, l lease) {
	_ = netlink.AddrDel(c.link, &netlink.Addr{IPNet: ipNet(l.address)}) // the kernel also removes its routes
	_ = n.resolve(c, by, nil)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// setName sets the host name: the configured name, else a valid name from DHCP, else a name derived from the first
// card.
func (n *Network) setName(told string) {
	short, _, _ := strings.Cut(told, ".")
	if !writ.ValidName(short) {
		short = ""
	}
	_ = n.rename([]byte(cmp.Or(n.settings.Name, short, nameFor(n.firstCard()))))
}

// resolve writes resolv.conf after the nameservers of a card have changed.
func (n *Network) resolve(c *card, by way, servers []netip.Addr) error {
	return n.resolver.set(source{c.link.Attrs().Index, by}, servers, n.settings.Nameservers)
}
