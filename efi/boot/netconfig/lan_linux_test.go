package netconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"writ/efi/progress"
	"writ/internal/test/testenv"
)

// lan is a network between a machine's card and a host. Test process and host have network namespaces of their own.
type lan struct {
	*testing.T
	*Network
	card  *card
	space string // network namespace of the host
	host  netlink.Link
	said  *console
	named chan string
	seen  []string // addresses reported so far
}

// console collects the lines of a network, like the consoles of a machine.
type console struct{ testenv.Log }

func (c *console) Stage(name, format string, args ...any) {
	fmt.Fprintf(c, "%s %s\n", name, fmt.Sprintf(format, args...))
}

func (c *console) Fail(name string, err error) {
	fmt.Fprintf(c, "%s error: %v\nhint: %s\n", name, err, progress.HintOf(err))
}

func (c *console) FailAgain(name string, err error, goesOn string) (held bool) {
	c.Fail(name, err)
	return false
}

// hostLinkLocal is the address of the host as a router.
var hostLinkLocal = netip.MustParseAddr("fe80::1")

// patience is the timeout for steps that usually take a moment.
const patience = time.Minute

func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{T: t, space: testenv.Netns(t), said: new(console), named: make(chan string, 16)}
	there, err := os.Open(l.space)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card"}, PeerName: "host", PeerNamespace: netlink.NsFd(there.Fd())}); err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName("card")
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "card")
	l.Network = New(l.said, new(Settings), new(sync.WaitGroup), t.TempDir(), func(name []byte) error {
		l.named <- string(name)
		return nil
	})
	l.card, _ = l.Network.find(link, true)
	testenv.InNetns(t, l.space, func() error {
		soon(t, "host")
		if l.host, err = netlink.LinkByName("host"); err != nil {
			return err
		}
		return netlink.LinkSetUp(l.host)
	})
	l.hasAddress(netip.PrefixFrom(hostLinkLocal, 64))
	return l
}

// soon shortens duplicate detection on a card and removes the delay of router solicitations.
func soon(t *testing.T, name string) {
	t.Helper()
	for file, value := range map[string]string{"conf/" + name + "/router_solicitation_delay": "0", "neigh/" + name + "/retrans_time_ms": "100"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/"+file, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// hasAddress adds an address to the host without duplicate detection.
func (l *lan) hasAddress(p netip.Prefix) {
	l.Helper()
	testenv.InNetns(l.T, l.space, func() error {
		address := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		return netlink.AddrAdd(l.host, address)
	})
}

// server is a server on the host.
type server interface {
	Serve() error
	Close() error
}

// serve runs a server on the host until the test ends.
func (l *lan) serve(open func() (server, error)) {
	l.Helper()
	var s server
	testenv.InNetns(l.T, l.space, func() (err error) { s, err = open(); return err })
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve() }()
	l.Cleanup(func() { s.Close(); <-served })
}

// start serves the card until the test ends.
func (l *lan) start() {
	ctx, stop := context.WithCancel(l.Context())
	l.Cleanup(func() { stop(); l.work.Wait() })
	l.work.Go(func() { l.Network.serveCard(ctx, l.card) })
}

// gets waits for a report that the card received an address.
func (l *lan) gets(want string) {
	l.Helper()
	late := time.After(patience)
	for {
		select {
		case got := <-l.Network.up:
			l.seen = append(l.seen, got)
			if strings.HasPrefix(got, want) {
				return
			}
			l.Errorf("the card got %s, want %s", got, want)
		case <-late:
			l.Fatalf("the card does not get %s, got %q; console:\n%s\n%s", want, l.seen, l.said, l.Network.String())
		}
	}
}

// eventually polls until is returns true.
func (l *lan) eventually(what string, is func() bool) {
	l.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			l.Fatalf("%s: not within %s; console:\n%s\n%s", what, patience, l.said, l.Network.String())
		}
	}
}

// isCalled waits until the host name is set and checks its prefix.
func (l *lan) isCalled(want string) {
	l.Helper()
	select {
	case name := <-l.named:
		if !strings.HasPrefix(name, want) {
			l.Errorf("the machine is called %s, want %s", name, want)
		}
	case <-time.After(patience):
		l.Errorf("the machine is not called %s", want)
	}
}

// says waits for a line on the console.
func (l *lan) says(want string) {
	l.Helper()
	l.eventually(fmt.Sprintf("line %q on the console", want), func() bool { return strings.Contains(l.said.String(), want) })
}

// resolves waits until resolv.conf has exactly these nameservers.
func (l *lan) resolves(want ...string) {
	l.Helper()
	text := ""
	for _, one := range want {
		text += "nameserver " + one + "\n"
	}
	l.eventually(fmt.Sprintf("nameservers are %q", want), func() bool {
		now, err := os.ReadFile(l.resolver.file)
		return string(now) == text && (err == nil || errors.Is(err, os.ErrNotExist))
	})
}

// hasOnly checks the addresses of the card, apart from its link-local address.
func (l *lan) hasOnly(family int, want ...string) {
	l.Helper()
	all, err := listed(func() ([]netlink.Addr, error) {
		return netlink.AddrList(l.card.link, [families]int{netlink.FAMILY_V4, netlink.FAMILY_V6}[family])
	})
	if err != nil {
		l.Fatal(err)
	}
	var has []string
	for _, one := range all {
		if !one.IP.IsLinkLocalUnicast() {
			has = append(has, one.IPNet.String())
		}
	}
	slices.Sort(has)
	if !slices.Equal(has, want) {
		l.Errorf("the card has %q, want %q", has, want)
	}
}

// router sends advertisements from the host.
type router struct {
	l    *lan
	conn *ndp.Conn
	mu   sync.Mutex
	now  *ndp.RouterAdvertisement
}

// routes makes the host a router that answers solicitations.
func (l *lan) routes(a *ndp.RouterAdvertisement) *router {
	l.Helper()
	r := &router{l: l, now: a}
	testenv.InNetns(l.T, l.space, func() (err error) {
		r.conn, _, err = ndp.Listen(&net.Interface{Index: l.host.Attrs().Index, Name: "host", MTU: l.host.Attrs().MTU}, ndp.Addr(hostLinkLocal.String()))
		if err != nil {
			return err
		}
		return r.conn.JoinGroup(netip.IPv6LinkLocalAllRouters())
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, _, _, err := r.conn.ReadFrom()
			if err != nil {
				return
			}
			if m.Type() == ipv6.ICMPTypeRouterSolicitation {
				r.mu.Lock()
				r.say(r.now, nil)
				r.mu.Unlock()
			}
		}
	}()
	l.Cleanup(func() { r.conn.Close(); <-ended })
	return r
}

// says changes the advertisement and sends it at once.
func (r *router) says(a *ndp.RouterAdvertisement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = a
	r.say(a, nil)
}

// say sends an advertisement, optionally with invalid fields of the IPv6 header.
func (r *router) say(a *ndp.RouterAdvertisement, fields *ipv6.ControlMessage) {
	if err := r.conn.WriteTo(a, fields, netip.IPv6LinkLocalAllNodes()); err != nil {
		r.l.Errorf("advertise: %v", err)
	}
}

// advertise returns an advertisement of a prefix for autoconfiguration.
func advertise(prefix string, more ...ndp.Option) *ndp.RouterAdvertisement {
	p := netip.MustParsePrefix(prefix)
	return &ndp.RouterAdvertisement{RouterLifetime: 30 * time.Minute, Options: append([]ndp.Option{&ndp.PrefixInformation{
		PrefixLength: uint8(p.Bits()), Prefix: p.Addr(), OnLink: true, AutonomousAddressConfiguration: true, ValidLifetime: time.Hour, PreferredLifetime: time.Hour,
	}}, more...)}
}

// nameserver returns the option for nameservers.
func nameserver(lifetime time.Duration, addresses ...string) ndp.Option {
	o := &ndp.RecursiveDNSServer{Lifetime: lifetime}
	for _, one := range addresses {
		o.Servers = append(o.Servers, netip.MustParseAddr(one))
	}
	return o
}
