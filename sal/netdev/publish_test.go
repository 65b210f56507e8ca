//go:build linux

package netdev

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/opening"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
)

// publishing is a host whose operator opened ports, and a client on another host.
type publishing struct {
	*fixture
	outside string // network namespace of the client
}

const (
	hostIPv4, hostIPv6     = "192.0.2.10", "2001:db8::10"
	clientIPv4, clientIPv6 = "192.0.2.77", "2001:db8::77"
)

func newPublishing(t testing.TB) *publishing {
	t.Helper()
	x := &publishing{newFixture(t, subnetA), testenv.Netns(t)}
	var err error
	if x.Open, err = opening.ParseList([]string{"127.0.0.1:8000-8010", hostIPv4 + ":8000-8010", "[" + hostIPv6 + "]:8000-8010"}); err != nil {
		t.Fatal(err)
	}
	run(t, x.Netns, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink", "netns", x.outside)
	for netns, addresses := range map[string][]string{x.Netns: {hostIPv4, hostIPv6}, x.outside: {clientIPv4, clientIPv6}} {
		run(t, netns, "ip", "link", "set", "lo", "up")
		run(t, netns, "ip", "link", "set", "uplink", "up")
		run(t, netns, "ip", "address", "add", addresses[0]+"/24", "dev", "uplink")
		run(t, netns, "ip", "address", "add", addresses[1]+"/64", "dev", "uplink", "nodad")
	}
	return x
}

func tcp(port, to int64) catalog.Publish {
	return catalog.Publish{Port: port, To: to, Protocol: "tcp"}
}

// server is a guest with published ports and a program that tells each client its address.
func (x *publishing) server(name string, publish []catalog.Publish, networks ...string) *guest {
	x.Helper()
	g := x.guest(name, networks...)
	if _, err := x.Publisher().Publish(x.Context(), g.owner, publish); err != nil {
		x.Fatalf("publish %v: %v", publish, err)
	}
	testenv.InNetns(x, g.netns, func() error {
		l, err := net.Listen("tcp", ":80")
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s %s\n", name, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
				_ = c.Close()
			}
		}()
		x.Cleanup(func() { _ = l.Close() })
		u, err := net.ListenPacket("udp", ":53")
		if err != nil {
			return err
		}
		go func() {
			for {
				_, from, err := u.ReadFrom(make([]byte, 10))
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(writerTo{u, from}, "%s\n", name)
			}
		}()
		x.Cleanup(func() { _ = u.Close() })
		return nil
	})
	return g
}

type writerTo struct {
	net.PacketConn
	to net.Addr
}

func (w writerTo) Write(b []byte) (int, error) { return w.WriteTo(b, w.to) }

// ask connects from a network namespace until there is an answer, and returns it. It returns "" after a long wait.
func (x *publishing) ask(netns, protocol, address string, port int) (answer string) {
	x.Helper()
	for end := time.Now().Add(20 * time.Second); answer == "" && time.Now().Before(end); {
		answer = x.tryAsking(netns, protocol, address, port, time.Second)
	}
	return answer
}

// isCutOff reports whether an address gives no answer soon.
func (x *publishing) isCutOff(netns, address string, port int) bool {
	x.Helper()
	return x.tryAsking(netns, "tcp", address, port, 200*time.Millisecond) == ""
}

func (x *publishing) tryAsking(netns, protocol, address string, port int, wait time.Duration) (answer string) {
	x.Helper()
	testenv.InNetns(x, netns, func() error {
		c, err := net.DialTimeout(protocol, netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String(), wait)
		if err != nil {
			return nil
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait))
		if protocol == "udp" {
			_, _ = c.Write([]byte("?"))
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		answer = strings.TrimSpace(line)
		return nil
	})
	return answer
}

// Promise: Networks and containers: A published port of a container is reachable at each open address of its node, from
// other hosts, from the node and from other containers, and the container sees the address of a TCP client.
// How: nftables translates the destination; 127.0.0.1 works on the node only.
func TestPublishedPortIsReachable(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	x.must("network.create", "back", nil)
	dns := catalog.Publish{Port: 8001, To: 53, Protocol: "udp"}
	alone := x.server("alone", []catalog.Publish{tcp(8000, 80), dns})
	both := x.server("both", []catalog.Publish{tcp(8002, 80), {Port: 8003, To: 53, Protocol: "udp"}}, "front", "back")
	neighbour := x.guest("neighbour", "front")
	router := neighbour.ports[0].Router.String()
	for _, tt := range []struct {
		from, netns, at string
		want            string // address that the server sees
	}{
		{"another host", x.outside, hostIPv4, clientIPv4},
		{"another host", x.outside, hostIPv6, clientIPv6},
		{"the node", x.Netns, hostIPv4, hostIPv4},
		{"the node", x.Netns, hostIPv6, hostIPv6},
		{"the node", x.Netns, "127.0.0.1", "169.254."},
		{"a container", neighbour.netns, hostIPv4, "169.254."},
	} {
		for name, port := range map[string]int{"alone": 8000, "both": 8002} {
			if got := x.ask(tt.netns, "tcp", tt.at, port); !strings.HasPrefix(got, name+" "+tt.want) {
				t.Errorf("%s asks %s at %s and gets %q, want %s", tt.from, name, tt.at, got, tt.want)
			}
			if got := x.ask(tt.netns, "udp", tt.at, port+1); got != name {
				t.Errorf("%s asks %s at %s by udp and gets %q", tt.from, name, tt.at, got)
			}
		}
	}
	if got := x.ask(both.netns, "tcp", hostIPv4, 8002); !strings.HasPrefix(got, "both 169.254.") {
		t.Errorf("a container asks itself and gets %q", got)
	}
	run(t, both.netns, "ip", "-6", "route", "add", "2001:db8::/64", "via", both.ports[0].Gateway.String())
	if got := x.ask(both.netns, "tcp", hostIPv6, 8002); !strings.HasPrefix(got, "both fd77:") {
		t.Errorf("a container asks itself by IPv6 and gets %q", got)
	}
	if received, sent, err := x.Traffic(t.Context(), alone.owner); err != nil || received == 0 || sent == 0 {
		t.Errorf("traffic: %d, %d, %v", received, sent, err)
	}
	if !x.isCutOff(neighbour.netns, router, 8000) {
		t.Error("a port is open at an address that its operator did not open")
	}
}

// Promise: Networks and containers: Clients reach only the published ports of a container, and the container cannot
// begin connections through them, nor reach services of the node.
// How: Its link lets replies out and drops the rest, also packets to 127.0.0.1; a port that is open at 127.0.0.1 does
// not accept packets of other hosts.
func TestPublishedPortOpensNothingElse(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	web := x.server("web", []catalog.Publish{tcp(8000, 80)})
	secret := x.server("secret", []catalog.Publish{tcp(8009, 81)})
	host, guest := describedLink(t, x, secret.owner)
	testenv.InNetns(t, x.Netns, func() error { // services of the host
		for _, at := range []string{"127.0.0.1:7000", "0.0.0.0:7001"} {
			l, err := net.Listen("tcp", at)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write([]byte("host\n"))
					_ = c.Close()
				}
			}()
		}
		return nil
	})
	if got := x.ask(x.Netns, "tcp", "127.0.0.1", 7000); got != "host" {
		t.Fatalf("the service of the host answers %q", got)
	}
	if x.ask(x.Netns, "tcp", "127.0.0.1", 8000) == "" {
		t.Fatal("the published port is not reachable")
	}
	for _, at := range []string{x.outside, x.Netns} {
		run(t, x.outside, "ip", "route", "replace", guest+"/32", "via", hostIPv4)
		if !x.isCutOff(at, guest, 80) {
			t.Error("a port that is not published answers")
		}
	}
	run(t, x.outside, "ip", "link", "set", "lo", "down")
	run(t, x.outside, "ip", "address", "flush", "dev", "lo")
	setting(t, x.outside, "ipv4/conf/all/route_localnet", "1")
	run(t, x.outside, "ip", "route", "replace", "127.0.0.1/32", "via", hostIPv4, "dev", "uplink")
	if !x.isCutOff(x.outside, "127.0.0.1", 8000) {
		t.Error("another host reaches a port at 127.0.0.1")
	}
	webHost, _ := describedLink(t, x, web.owner)
	setting(t, web.netns, "ipv4/conf/all/route_localnet", "1")
	for _, add := range [][]string{
		{"ip", "route", "add", "default", "via", webHost, "dev", linkInside},
		{"ip", "address", "flush", "dev", "lo"},
		{"ip", "route", "replace", "127.0.0.0/8", "via", webHost, "dev", linkInside},
	} {
		run(t, web.netns, add...)
	}
	_, webGuest := describedLink(t, x, web.owner)
	for to, port := range map[string]int{clientIPv4: 7002, webHost: 7001, hostIPv4: 7001, "127.0.0.1": 7000, guest: 80, host: 7001} {
		if !x.isCutOff(web.netns, to, port) {
			t.Errorf("from %s, the container reaches %s", webGuest, to)
		}
	}
}

// setting changes a setting of the kernel in a network namespace.
func setting(t testing.TB, netns, name, value string) {
	t.Helper()
	testenv.InNetns(t, netns, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) })
}

// describedLink returns the IPv4 addresses of an owner's link.
func describedLink(t testing.TB, x *publishing, owner sal.Owner) (host, guest string) {
	t.Helper()
	r, err := recordsOf(x.Driver).holdings.Get(ownerID(owner.UID))
	if err != nil || r == nil || r.Own.Link == nil {
		t.Fatalf("%s has no link: %v", owner.Resource, err)
	}
	outer, inner := r.Own.Link.ends()
	return outer[0].Addr().String(), inner[0].Addr().String()
}

// claimsOf returns the recorded ports of an owner.
func claimsOf(t testing.TB, x *publishing, owner sal.Owner) []sal.Claim {
	t.Helper()
	r, err := recordsOf(x.Driver).holdings.Get(ownerID(owner.UID))
	if err != nil {
		t.Fatal(err)
	}
	if r == nil || r.Own.Link == nil {
		return nil
	}
	return r.Own.Link.Claims
}

func TestPublishedPortIsTaken(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	testenv.InNetns(t, x.Netns, func() error {
		for _, at := range []string{"127.0.0.1:8005", "[::]:8006", "192.0.2.11:8007"} {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.Replace(at, "192.0.2.11", "127.0.0.9", 1))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		return nil
	})
	web := x.server("web", []catalog.Publish{tcp(8000, 80)})
	other := x.guest("other")
	stranger := ownerOf("stranger")
	stranger.Resource.Project = "p-stranger"
	if _, _, err := x.Namespace(t.Context(), stranger, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		owner sal.Owner
		port  int64
		code  writ.Code
		text  string
	}{
		{other.owner, 8000, writ.CodePortTaken, "container web publishes it"},
		{stranger, 8000, writ.CodePortTaken, "a resource of another project publishes it"},
		{other.owner, 8005, writ.CodePortTaken, "a process of the node listens on 127.0.0.1:8005"},
		{other.owner, 8006, writ.CodePortTaken, "a process of the node listens on 127.0.0.1:8006"},
		{other.owner, 8007, "", ""},
		{other.owner, 7999, writ.CodePortClosed, "port 7999 is not open"},
	} {
		_, err := x.Publisher().Publish(t.Context(), tt.owner, []catalog.Publish{tcp(tt.port, 80)})
		if err != nil && (writ.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text)) || err == nil && tt.code != "" {
			t.Errorf("%s publishes %d: %v, want %s %s", tt.owner.Resource, tt.port, err, tt.code, tt.text)
		}
	}
	if got := x.ask(x.outside, "tcp", hostIPv4, 8000); got != "web "+clientIPv4 {
		t.Errorf("after the attempts of others the port answers %q", got)
	}
	var chosen []int64
	for range 2 {
		published, err := x.Publisher().Publish(t.Context(), other.owner, []catalog.Publish{tcp(0, 80)})
		if err != nil || len(published) != 3 {
			t.Fatalf("published: %v, %v", published, err)
		}
		chosen = append(chosen, published[0].Port)
	}
	if want := []int64{8001, 8001}; !slices.Equal(chosen, want) {
		t.Errorf("port 0 is %v, want %v", chosen, want)
	}
	if err := x.Release(t.Context(), web.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Publisher().Publish(t.Context(), stranger, []catalog.Publish{tcp(8000, 80)}); err != nil {
		t.Errorf("the port of a deleted container stays taken: %v", err)
	}
}

func TestPublishedPortIsRepaired(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	web := x.server("web", []catalog.Publish{tcp(8000, 80)})
	full := x.fixture.traces()
	device := linkDevice(web.owner.UID)
	for what, damage := range map[string][]string{
		"its rules":    {"nft", "delete", "table", "inet", "writ"},
		"one rule":     {"nft", "flush", "chain", "inet", "writ", "target-" + device},
		"its port":     {"nft", "flush", "map", "inet", "writ", "published-tcp"},
		"its link":     {"ip", "link", "delete", device},
		"its address":  {"ip", "address", "flush", "dev", device},
		"its settings": nil,
	} {
		if damage != nil {
			run(t, x.Netns, damage...)
		} else {
			setting(t, x.Netns, "ipv4/conf/"+device+"/route_localnet", "0")
		}
		_, drift, err := x.Publisher().Keep(t.Context(), web.owner)
		if err != nil || len(drift) == 0 && what != "its settings" {
			t.Errorf("%s: drift is %v, %v", what, drift, err)
		}
		if diff := cmp.Diff(full, x.fixture.traces()); diff != "" {
			t.Errorf("%s is not repaired:\n%s", what, diff)
		}
		for netns, at := range map[string]string{x.outside: hostIPv4, x.Netns: "127.0.0.1"} {
			if got := x.ask(netns, "tcp", at, 8000); !strings.HasPrefix(got, "web ") {
				t.Errorf("without %s and repaired, the port answers %q", what, got)
			}
		}
		if _, drift, err := x.Publisher().Keep(t.Context(), web.owner); err != nil || len(drift) > 0 {
			t.Errorf("%s: repaired, and drift is %v, %v", what, drift, err)
		}
	}
	x.Open = x.Open[:1]
	_, drift, err := x.Publisher().Keep(t.Context(), web.owner)
	if err != nil || !x.isCutOff(x.outside, hostIPv4, 8000) || x.ask(x.Netns, "tcp", "127.0.0.1", 8000) == "" {
		t.Errorf("a port is open at an address that its operator closed: %v, %v", drift, err)
	}
	x.Open = nil
	if _, drift, err = x.Publisher().Keep(t.Context(), web.owner); err != nil || len(drift) == 0 || !strings.Contains(drift[len(drift)-1].What, "closed its port 8000/tcp") {
		t.Errorf("drift is %v, %v", drift, err)
	}
	if !x.isCutOff(x.Netns, "127.0.0.1", 8000) {
		t.Error("a port that its operator closed is open")
	}
}

// A hostile program may have millions of sockets. To count the open connections of its published ports needs no memory
// for each.
func TestCountOfConnectionsNeedsLittleMemory(t *testing.T) {
	x := newPublishing(t)
	g := x.server("web", []catalog.Publish{tcp(8000, 81)})
	const many = 2000
	testenv.InNetns(t, g.netns, func() error {
		l, err := net.Listen("tcp", "127.0.0.1:7000")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = l.Close() })
		for range many {
			c, err := net.Dial("tcp", "127.0.0.1:7000")
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = c.Close() })
			if c, err = l.Accept(); err != nil {
				return err
			}
			t.Cleanup(func() { _ = c.Close() })
		}
		return nil
	})
	x.held(g, 8000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := x.Publisher().Connections(t.Context(), g.owner)
	runtime.ReadMemStats(&after)
	if n != 1 || err != nil {
		t.Errorf("it has %d connections, %v", n, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2*many*200 {
		t.Errorf("it allocated %d bytes for %d sockets", used, 2*many)
	}
}

// Promise: Networks and containers: A published port that moves to another container never leads to none, and open
// connections to the earlier one continue until it is deleted.
// How: nftables replaces the target of a port in one transaction, and the kernel remembers the target of each
// connection.
func TestPublishedPortsMove(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	wanted := []catalog.Publish{tcp(8000, 80), {Port: 0, To: 53, Protocol: "udp"}}
	all := append([]catalog.Publish{tcp(8005, 80), tcp(8006, 81)}, wanted...)
	old, other := x.server("old", all), x.server("new", nil)
	before, err := x.Publisher().Publish(t.Context(), old.owner, all)
	if err != nil {
		t.Fatal(err)
	}
	udp := int(before[slices.IndexFunc(before, func(p catalog.Published) bool { return p.Protocol == "udp" })].Port)
	exchange := x.held(old, 8006)
	datagrams := x.fixedPort(udp)
	if got := datagrams(); got != "old" {
		t.Fatalf("before, a datagram reaches %q", got)
	}

	stop, counted := make(chan struct{}), make(chan [2]int)
	go func() {
		var done, failed int
		for {
			select {
			case <-stop:
				counted <- [2]int{done, failed}
				return
			default:
			}
			if x.tryAsking(x.outside, "tcp", hostIPv4, 8000, 5*time.Second) == "" {
				failed++
			}
			done++
		}
	}()
	from, to := old.owner, other.owner
	for range 9 {
		published, err := x.Publisher().Move(t.Context(), from, to, wanted)
		if err != nil || !slices.ContainsFunc(published, func(p catalog.Published) bool { return int(p.Port) == udp }) {
			t.Fatalf("move: %v, %v", published, err)
		}
		from, to = to, from
	}
	close(stop)
	if n := <-counted; n[1] > 0 || n[0] < 10 {
		t.Errorf("%d of %d connections failed", n[1], n[0])
	}

	if got := x.ask(x.outside, "tcp", hostIPv4, 8000); got != "new "+clientIPv4 {
		t.Errorf("the port leads to %q", got)
	}
	if !x.isCutOff(x.outside, hostIPv4, 8005) {
		t.Error("a port that the new owner does not want is open")
	}
	if err := exchange("still there"); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	if n, err := x.Publisher().Connections(t.Context(), old.owner); n != 1 || err != nil {
		t.Errorf("the old owner has %d connections, %v", n, err)
	}
	x.countSlowly(old.owner, func() {
		for range 100 { // a count that begins meanwhile must not delay these
			if _, _, err := x.Publisher().Keep(t.Context(), other.owner); err != nil {
				t.Error(err)
			}
		}
	})
	if err := x.Release(t.Context(), old.owner); err != nil {
		t.Fatal(err)
	}
	if got := datagrams(); got != "new" {
		t.Errorf("a client that keeps its port reaches %q", got)
	}
	if published, drift, err := x.Publisher().Keep(t.Context(), other.owner); err != nil || len(published) != 6 || len(drift) > 0 {
		t.Errorf("the new owner publishes %v, drift %v, %v", published, drift, err)
	}
}

// countSlowly counts the connections of an owner while it calls meanwhile. The count waits until meanwhile has returned.
func (x *publishing) countSlowly(owner sal.Owner, meanwhile func()) {
	x.Helper()
	fifo, namespace := filepath.Join(x.TempDir(), "fifo"), filepath.Join(x.Namespaces, ownerID(owner.UID).HostName())
	err := unix.Mkfifo(fifo, 0o600)
	if err == nil {
		err = unix.Mount(fifo, namespace, "", unix.MS_BIND, "")
	}
	if err != nil {
		x.Fatal(err)
	}
	counted, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(counted)
		_, _ = x.Publisher().Connections(x.Context(), owner) // opens the file, which needs a writer
	}()
	go func() {
		defer close(done)
		meanwhile()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		x.Error("a slow count holds the lock of the driver")
	}
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	<-counted
	if err := errors.Join(err, writer.Close(), unix.Unmount(namespace, 0)); err != nil {
		x.Fatal(err)
	}
}

// held opens a connection from the outside to a port that leads to port 81 of a guest, where each line is sent back.
func (x *publishing) held(g *guest, port int) (exchange func(line string) error) {
	x.Helper()
	x.echo(g)
	return exchanging(x.dialFrom(0, hostIPv4, port))
}

// echo accepts one connection to port 81 of a guest and sends back what it receives.
func (x *publishing) echo(g *guest) {
	x.Helper()
	testenv.InNetns(x, g.netns, func() error {
		l, err := net.Listen("tcp", ":81")
		if err != nil {
			return err
		}
		go func() {
			c, err := l.Accept()
			_ = l.Close()
			if err == nil {
				_, _ = io.Copy(c, c)
			}
		}()
		return nil
	})
}

// dialFrom connects from a port outside, or from any port if from is 0.
func (x *publishing) dialFrom(from int, address string, port int) (c net.Conn) {
	x.Helper()
	testenv.InNetns(x, x.outside, func() (err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: from}, Timeout: 20 * time.Second}
		c, err = d.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String())
		return err
	})
	x.Cleanup(func() { _ = c.Close() })
	return c
}

// exchanging returns a function that sends a line on a connection and waits until it is sent back.
func exchanging(c net.Conn) (exchange func(line string) error) {
	return func(line string) error {
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c, line); err != nil {
			return err
		}
		got := make([]byte, len(line)+1)
		_, err := io.ReadFull(c, got)
		return err
	}
}

// Promise: Networks and containers: A client that keeps sending datagrams to a port does not reach its earlier owner,
// which withdrew the port and keeps others.
func TestWithdrawnPortLosesItsDatagrams(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	dns, more := catalog.Publish{Port: 8001, To: 53, Protocol: "udp"}, catalog.Publish{Port: 8003, To: 53, Protocol: "udp"}
	a, b := x.server("a", []catalog.Publish{dns, more}), x.server("b", nil)
	datagrams, others := x.fixedPort(8001), x.fixedPort(8003)
	if got := datagrams() + others(); got != "aa" {
		t.Fatalf("before, datagrams reach %q", got)
	}
	if _, err := x.Publisher().Publish(t.Context(), a.owner, []catalog.Publish{more}); err != nil {
		t.Fatal(err)
	}
	if got := datagrams(); got != "" {
		t.Errorf("the withdrawn port leads to %q", got)
	}
	if _, err := x.Publisher().Publish(t.Context(), b.owner, []catalog.Publish{dns}); err != nil {
		t.Fatal(err)
	}
	if got := datagrams(); got != "b" {
		t.Errorf("the port of another owner leads to %q", got)
	}
	if got := others(); got != "a" {
		t.Errorf("the other port leads to %q", got)
	}
}

// fixedPort returns a function that sends a datagram to a port, always from the same port outside, and returns the
// answer.
func (x *publishing) fixedPort(port int) (ask func() string) {
	x.Helper()
	var c net.Conn
	testenv.InNetns(x, x.outside, func() (err error) {
		c, err = net.Dial("udp", net.JoinHostPort(hostIPv4, fmt.Sprint(port)))
		return err
	})
	x.Cleanup(func() { _ = c.Close() })
	return func() string {
		for range 20 {
			_, _ = c.Write([]byte("?"))
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			answer := make([]byte, 100)
			if n, err := c.Read(answer); err == nil {
				return strings.TrimSpace(string(answer[:n]))
			}
		}
		return ""
	}
}

// Promise: Networks and containers: A runner killed at any step of publishing a port leaves a state that the next call
// completes or removes.
// How: The claim is recorded before the rules, and they are removed before the claim.
func TestPublishedPortsSurviveACrashAtAnyStep(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var dead sync.WaitGroup
	t.Cleanup(func() {
		close(release)
		dead.Wait()
	})
	x := newPublishing(t)
	empty := x.fixture.traces()
	publish := func(ports ...catalog.Publish) func(*fixture) error {
		return func(d *fixture) error {
			if _, _, err := d.Namespace(t.Context(), ownerOf("web"), nil); err != nil {
				return err
			}
			_, err := d.Publisher().Publish(t.Context(), ownerOf("web"), ports)
			return err
		}
	}
	letGo := func(d *fixture) error { return d.Release(t.Context(), ownerOf("web")) }
	full, other, none := publish(tcp(8000, 80)), publish(tcp(8001, 80), tcp(8002, 81)), publish()
	move := func(d *fixture) error {
		if _, _, err := d.Namespace(t.Context(), ownerOf("next"), nil); err != nil {
			return err
		}
		_, err := d.Publisher().Move(t.Context(), ownerOf("web"), ownerOf("next"), []catalog.Publish{tcp(8000, 80)})
		return err
	}
	moveBack := func(d *fixture) error { // the next call of an owner that gave up
		if err := d.Release(t.Context(), ownerOf("next")); err != nil {
			return err
		}
		return full(d)
	}
	bare := func(d *fixture) error { // only the steps of publishing are of interest
		if err := letGo(d); err != nil {
			return err
		}
		return none(d)
	}
	if err := full(x.fixture); err != nil {
		t.Fatal(err)
	}
	want := x.fixture.traces()
	stride := 3 // all steps in the nightly tier
	if testenv.IsNightly() {
		stride = 1
	}
	for _, acts := range []struct {
		name       string
		before, do func(*fixture) error
	}{
		{"while they are published", bare, full}, {"while they change", full, other},
		{"while they are withdrawn", full, none}, {"while they are released", full, letGo}, {"while they move", full, move},
	} {
		for at := 0; ; at += stride {
			if err := acts.before(x.fixture); err != nil {
				t.Fatal(err)
			}
			when := fmt.Sprintf("%s, at step %d", acts.name, at)
			reached := crash(t, x.fixture, at, acts.do, release, &dead)
			// a new driver, because the old one holds its lock
			x.Driver = &Driver{Dir: x.Dir, Overlay: x.Overlay, Netns: x.Netns, Namespaces: x.Namespaces, Open: x.Open}
			if _, _, err := x.Publisher().Keep(t.Context(), ownerOf("web")); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if orphans, err := x.Orphans(t.Context()); err != nil || len(orphans) > 0 && acts.name != "while they are published" {
				t.Errorf("%s: orphans are %v, %v", when, orphans, err)
			}
			if at%2 == 0 {
				if err := moveBack(x.fixture); err != nil {
					t.Errorf("%s: it cannot be done again: %v", when, err)
				}
				if diff := cmp.Diff(want, x.fixture.traces()); diff != "" {
					t.Errorf("%s, and done again:\n%s", when, diff)
				}
			}
			if acts.name == "while they move" {
				if err := move(x.fixture); err != nil {
					t.Errorf("%s: they cannot move again: %v", when, err)
				}
				if got := claimsOf(t, x, ownerOf("web")); len(got) > 0 {
					t.Errorf("%s: after the move, the earlier owner has %v", when, got)
				}
				if err := x.Release(t.Context(), ownerOf("next")); err != nil {
					t.Errorf("%s: the next owner cannot be released: %v", when, err)
				}
			}
			if err := letGo(x.fixture); err != nil {
				t.Errorf("%s: it cannot be released: %v", when, err)
			}
			if diff := cmp.Diff(empty, x.fixture.traces()); diff != "" {
				t.Errorf("%s, and released:\n%s", when, diff)
			}
			if t.Failed() {
				return
			}
			if !reached {
				t.Logf("%s: no such step", when)
				break
			}
		}
	}
}
