//go:build linux

package netdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/internal/test/myceliumstub"
	"writ/internal/test/testenv"
	"writ/sal/mycelium"
	"writ/sal/saltest"
)

// TestMain lets this program act as the stub of mycelium if it is called by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "mycelium" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := myceliumstub.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// joined is a host in an overlay with others.
type joined struct {
	*fixture
	node *mycelium.Node
}

// stub returns this program under the name of mycelium.
func stub(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "mycelium")
	if err := os.Symlink(self, binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

// join creates two hosts on one wire, with a daemon on each.
func join(t *testing.T, binary string) (a, b joined) {
	t.Helper()
	host := func() joined {
		s := &fixtures{netns: map[string]string{}}
		dir := testenv.Home(t, "n")
		t.Cleanup(func() { s.clear(t, dir) })
		x := joined{fixture: &fixture{TB: t, dir: dir, Driver: s.open(t, dir, nil)}}
		x.node = &mycelium.Node{
			Options: mycelium.Options{Binary: binary, NoDiscovery: true},
			Dir:     filepath.Join(dir, "mycelium"), Netns: x.Netns, Log: slog.New(slog.DiscardHandler),
		}
		x.Overlay = x.node
		return x
	}
	a, b = host(), host()
	b.node.Peers = []string{"tcp://10.0.0.1:9651"}
	run(t, a.Netns, "ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b.Netns)
	for i, x := range []joined{a, b} {
		run(t, x.Netns, "ip", "address", "add", fmt.Sprintf("10.0.0.%d/24", i+1), "dev", "wire")
		for _, up := range []string{"wire", "lo"} {
			run(t, x.Netns, "ip", "link", "set", up, "up")
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- x.node.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		s, err := b.node.Status(t.Context())
		if err != nil || time.Now().After(end) {
			t.Fatalf("the hosts do not meet: %+v, %v", s, err)
		}
		if s.Connected && len(s.Routes) > 0 {
			return a, b
		}
	}
}

// Promise: Machines and the overlay: Resources on two nodes reach each other over the overlay, and forbidden packets
// and false addresses are dropped and counted.
// How: A /96 of the node's /64 per network, 400::/7 by the daemon, rules at both ends.
//
// Promise: Machines and the overlay: The overlay carries packets up to the network's size, and a peer that would lose
// them is refused before any process starts.
// How: Peers connect by TCP only.
// Also: TestRefusedPeersAreUnusable, TestInvalidPeersAreRefused, TestAPeerOfNoUseIsRefusedBeforeAnythingStarts
//
// Promise: Commands and hosts: `writ node show` and `/metrics` show overlay state and dropped packets, at most half a
// minute old.
// How: Part of the signed report of a node; lists are bounded on both sides.
// Also: TestTwoHostsReachEachOther, TestNodeMaintainsItsResources, TestDriftBecomesPartOfItsResource,
// TestANodeShowsHowItsNetworksDo.
func TestGuestsReachEachOtherOverTheOverlay(t *testing.T) {
	t.Run("stub", func(t *testing.T) { reachEachOther(t, stub(t)) })
	t.Run("real", func(t *testing.T) { reachEachOther(t, testenv.Need(t, "mycelium")) })
}

func reachEachOther(t *testing.T, binary string) {
	t.Parallel()
	testenv.Need(t, "ping")
	a, b := join(t, binary)
	open := map[string]any{"rules": []any{map[string]any{"protocol": "icmp", "from": []any{"400::/7"}}, map[string]any{"ports": []any{int64(80)}}}}
	for _, x := range []joined{a, b} {
		x.must("network.create", "front", nil)
		x.must("network.allow", "front", open)
	}
	web, db := a.guest("web", "front"), b.guest("db", "front")
	if web.ports[0].IPv6.Masked() == db.ports[0].IPv6.Masked() {
		t.Fatalf("two nodes have the range %s", web.ports[0].IPv6)
	}
	if !web.reaches(db.address()) || !db.reaches(web.address()) {
		t.Fatal("they do not reach each other")
	}
	if !web.reaches(db.address(), "-s", "1352", "-M", "do") {
		t.Errorf("a packet of %d bytes does not pass", MTU)
	}

	carriesMuch(t, web, db)

	listen := func(g *guest, port string) {
		testenv.InNetns(t, g.netns, func() error {
			l, err := net.Listen("tcp", "["+g.address()+"]:"+port)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		})
	}
	dial := func(g *guest, to, port string) (err error) {
		testenv.InNetns(t, g.netns, func() error {
			var c net.Conn
			if c, err = net.DialTimeout("tcp", "["+to+"]:"+port, 500*time.Millisecond); err == nil {
				c.Close()
			}
			return nil
		})
		return err
	}
	listen(db, "80")
	listen(db, "81")
	if err := dial(web, db.address(), "80"); err != nil {
		t.Errorf("the port that is open: %v", err)
	}
	denied := db.dropped().Denied
	if err := dial(web, db.address(), "81"); err == nil {
		t.Error("a port that is not open is reached")
	}
	if after := db.dropped().Denied; after <= denied {
		t.Errorf("denied packets were not counted: %d, then %d", denied, after)
	}

	// A guest on one node claims the address of a guest on the other.
	spoofed := web.dropped().Spoofed
	false6 := db.ports[0].IPv6.Addr().Next().String()
	run(t, web.netns, "ip", "address", "add", false6+"/128", "dev", "eth0", "nodad")
	if !web.cutOff(db.address(), "-I", false6) {
		t.Error("an address of another node gets an answer")
	}
	if after := web.dropped().Spoofed; after <= spoofed {
		t.Errorf("spoofed packets were not counted: %d, then %d", spoofed, after)
	}
	told, err := a.Network(t.Context())
	if err != nil || told.Overlay == nil || !told.Overlay.Connected || told.Overlay.Selected == 0 {
		t.Errorf("overlay = %+v, %v", told, err)
	}
	if len(told.Ports) != 1 || told.Ports[0].Owner != web.owner.Resource.String() || told.Ports[0].Network != "front" || told.Ports[0].Spoofed != told.Spoofed || told.Spoofed <= spoofed {
		t.Errorf("counters = %+v", told)
	}

	// A closed network accepts only replies.
	b.must("network.allow", "front", map[string]any{"rules": []any{}})
	if !db.reaches(web.address()) {
		t.Error("a guest in a closed network gets no replies")
	}
	if !web.cutOff(db.address()) {
		t.Error("a closed network is open")
	}
}

// carriesMuch sends some MiB from one guest to another, in packets of maximum size.
func carriesMuch(t *testing.T, from, to *guest) {
	t.Helper()
	const much = 5 << 20
	var l net.Listener
	testenv.InNetns(t, to.netns, func() (err error) {
		l, err = net.Listen("tcp", "["+to.address()+"]:80")
		return err
	})
	got := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		l.Close() // before the next test listens there
		if err == nil {
			defer c.Close()
			var n int64
			if n, err = io.Copy(io.Discard, c); err == nil && n != much {
				err = fmt.Errorf("%d bytes came", n)
			}
		}
		got <- err
	}()
	testenv.InNetns(t, from.netns, func() error {
		c, err := net.Dial("tcp", "["+to.address()+"]:80")
		if err != nil {
			return err
		}
		_, err = c.Write(make([]byte, much))
		return errors.Join(err, c.Close())
	})
	if err := <-got; err != nil {
		t.Errorf("not all of %d bytes arrived: %v", much, err)
	}
}

// Multicast of programs that search for peers, like mycelium, does not reach networks. Unicast does.
//
// Promise: Machines and the overlay: Multicast of programs on a node's host does not enter its networks.
// How: Multicast by UDP is dropped where the host sends onto a port.
func TestHostMulticastStaysOffNetworks(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	web := x.guest("web", "front")
	bridge := saltest.Resource(writ.KindNetwork, "front").HostName()
	if !web.reaches(web.ports[0].Gateway.String()) { // its addresses must exist
		t.Fatal("the host does not answer")
	}
	for group, own := range map[string]string{"ff02::cafe": web.address(), "224.0.0.251": web.ports[0].IPv4.Addr().String()} {
		var heard *net.UDPConn
		testenv.InNetns(t, web.netns, func() error {
			eth0, err := net.InterfaceByName("eth0")
			if err == nil {
				heard, err = net.ListenMulticastUDP("udp", eth0, &net.UDPAddr{IP: net.ParseIP(group), Port: 9650})
			}
			return err
		})
		testenv.InNetns(t, x.Netns, func() error {
			for _, to := range []struct{ address, text string }{{group, "is anybody there?"}, {own, "you are"}} {
				address := &net.UDPAddr{IP: net.ParseIP(to.address), Port: 9650}
				if address.IP.IsLinkLocalMulticast() && address.IP.To4() == nil {
					address.Zone = bridge
				}
				if address.IP.To4() != nil && address.IP.IsMulticast() {
					run(t, x.Netns, "ip", "route", "replace", group, "dev", bridge)
				}
				c, err := net.DialUDP("udp", nil, address)
				if err != nil {
					return err
				}
				_, err = c.Write([]byte(to.text))
				if err := errors.Join(err, c.Close()); err != nil {
					return fmt.Errorf("send to %s: %w", to.address, err)
				}
			}
			return nil
		})
		text := make([]byte, 100)
		n, err := heard.Read(text)
		if got := string(text[:n]); err != nil || got != "you are" {
			t.Errorf("%s: first it hears %q, %v", group, got, err)
		}
		_ = heard.Close()
	}
}

// mycelium searches for peers on every interface of a host and would accept tenants. The test listens in place of the
// daemon, on the ports for discovery, TCP and QUIC. The first message it receives must be the host's own.
//
// Promise: Machines and the overlay: Members of a network cannot reach the overlay daemon of their host at any
// address.
// How: Traffic from networks to the host is dropped, except ICMP and replies; discovery uses UDP 9650, its ports are
// 9651.
func TestGuestsCannotReachTheOverlayOfTheirHost(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	run(t, x.Netns, "ip", "link", "set", "lo", "up")
	for _, other := range []string{"192.0.2.1/32", "400:ffff::1/128"} { // of the host, outside all networks
		run(t, x.Netns, "ip", "address", "add", other, "dev", "lo")
	}
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	web := x.guest("web", "front")
	gateway, router := web.ports[0].Gateway.String(), web.ports[0].Router.String()
	if !web.reaches(gateway) || !web.reaches(router) || !web.reaches("400:ffff::1") || !web.reaches("192.0.2.1") {
		t.Fatal("the host does not answer")
	}
	name := saltest.Resource(writ.KindNetwork, "front").HostName()
	var heard []net.PacketConn
	var daemon net.Listener
	var local string // the host's link-local address on the network
	testenv.InNetns(t, x.Netns, func() error {
		bridge, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		addresses, err := bridge.Addrs()
		for _, a := range addresses {
			if ip := a.(*net.IPNet).IP; ip.To4() == nil && ip.IsLinkLocalUnicast() {
				local = ip.String()
			}
		}
		discovery, derr := net.ListenMulticastUDP("udp", bridge, &net.UDPAddr{IP: net.ParseIP("ff02::cafe"), Port: 9650})
		quic, qerr := net.ListenPacket("udp", ":9651")
		tcp, terr := net.Listen("tcp", ":9651")
		heard, daemon = []net.PacketConn{discovery, quic}, tcp
		return errors.Join(err, derr, qerr, terr)
	})
	if local == "" {
		t.Fatalf("%s has no link-local address", name)
	}
	dial := func(network, to string) error {
		c, err := net.DialTimeout(network, to, 300*time.Millisecond)
		if err == nil {
			_, err = c.Write([]byte("a guest"))
			err = errors.Join(err, c.Close())
		}
		return err
	}
	testenv.InNetns(t, web.netns, func() error {
		for _, to := range []string{gateway, router, local + "%eth0", "192.0.2.1", "400:ffff::1"} {
			if dial("tcp", net.JoinHostPort(to, "9651")) == nil {
				t.Errorf("the guest is connected to the overlay at %s", to)
			}
			for _, port := range []string{"9650", "9651"} {
				_ = dial("udp", net.JoinHostPort(to, port)) // refused or not: the host reports its messages
			}
		}
		return dial("udp", "[ff02::cafe%eth0]:9650")
	})
	testenv.InNetns(t, x.Netns, func() error {
		for _, c := range heard {
			to := net.JoinHostPort("::1", fmt.Sprint(c.LocalAddr().(*net.UDPAddr).Port))
			own, err := net.Dial("udp", to)
			if err == nil {
				_, err = own.Write([]byte("the host"))
				err = errors.Join(err, own.Close())
			}
			if err != nil {
				return err
			}
		}
		own, err := net.Dial("tcp", "[::1]:9651")
		if err != nil {
			return err
		}
		return own.Close()
	})
	for _, c := range heard {
		text := make([]byte, 100)
		n, from, err := c.ReadFrom(text)
		if got := string(text[:n]); err != nil || got != "the host" {
			t.Errorf("%s hears first %q of %v, %v", c.LocalAddr(), got, from, err)
		}
		_ = c.Close()
	}
	if c, err := daemon.Accept(); err != nil {
		t.Error(err)
	} else {
		if from := c.RemoteAddr().(*net.TCPAddr).IP; !from.IsLoopback() {
			t.Errorf("%s was connected first", from)
		}
		_ = c.Close()
	}
	_ = daemon.Close()
}

func TestNetworkUsesIPv4OfItsNode(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	outside := testenv.Netns(t)
	run(t, x.Netns, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink", "netns", outside)
	for i, netns := range []string{x.Netns, outside} {
		run(t, netns, "ip", "address", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "uplink")
		run(t, netns, "ip", "link", "set", "uplink", "up")
	}
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	web := x.guest("web", "front")
	if !web.reaches("192.0.2.2") { // which has no route to 10.77.0.0/24
		t.Error("nothing comes back")
	}
	if !web.reaches(web.ports[0].Router.String()) {
		t.Error("the router does not answer")
	}
	run(t, outside, "ip", "route", "add", "10.77.0.0/24", "via", "192.0.2.1")
	said, err := try(t, outside, "ping", "-n", "-c", "2", "-W", "0.2", "-i", "0.05", web.ports[0].IPv4.Addr().String())
	if err == nil {
		t.Errorf("from outside the private range is reached: %s", said)
	}
	if d := web.dropped(); d.Denied == 0 {
		t.Errorf("%+v", d)
	}
}

func TestHostKeepsItsRouteFromARouter(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	run(t, x.Netns, "ip", "link", "add", "up.link", "type", "bridge")
	setting := func(path string) (value string) {
		testenv.InNetns(t, x.Netns, func() error {
			text, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + path)
			value = strings.TrimSpace(string(text))
			return err
		})
		return value
	}
	if was := setting("up.link/accept_ra") + setting("all/forwarding"); was != "10" {
		t.Skipf("a new interface of this host is set otherwise: %s", was)
	}
	x.must("network.create", "front", nil)
	for path, want := range map[string]string{
		"up.link/accept_ra": "2", "all/forwarding": "1", saltest.Resource(writ.KindNetwork, "front").HostName() + "/accept_ra": "0",
	} {
		if got := setting(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// A port takes milliseconds to create; the duration is reported but not checked.
func BenchmarkPort(b *testing.B) {
	for name, hold := range map[string]func(x *fixture, name string) error{
		"tap": func(x *fixture, name string) error { _, err := x.tap(name); return err },
		"namespace": func(x *fixture, name string) error {
			_, _, err := x.Namespace(b.Context(), ownerOf(name), refs([]string{"front"}))
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			x := newFixture(b, subnetA)
			x.must("network.create", "front", nil)
			for i := 0; b.Loop(); i++ {
				if err := hold(x, fmt.Sprintf("guest-%d", i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkKeepOfANetworkWith50Ports(b *testing.B) {
	x := newFixture(b, subnetA)
	x.must("network.create", "front", nil)
	for i := range 50 {
		if _, err := x.tap(fmt.Sprintf("guest-%d", i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if drift, err := x.Keep(b.Context(), saltest.Resource(writ.KindNetwork, "front")); err != nil || len(drift) > 0 {
			b.Fatal(drift, err)
		}
	}
}
