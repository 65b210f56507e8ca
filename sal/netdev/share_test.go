//go:build linux

package netdev

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
)

// shared returns a published port that containers share.
func shared(port, to int64) catalog.Publish {
	return catalog.Publish{Port: port, To: to, Protocol: "tcp", Share: "web"}
}

// readies sets the readiness of owners.
func (x *publishing) readies(readiness sal.Readiness, owners ...*guest) {
	x.Helper()
	for _, g := range owners {
		if err := x.Publisher().SetReadiness(x.Context(), g.owner, readiness); err != nil {
			x.Fatal(err)
		}
	}
}

// served returns the names of the guests that answer n connections to port 8000, with the number of answers.
func (x *publishing) served(n int) map[string]int {
	x.Helper()
	count := map[string]int{}
	for range n {
		name, _, _ := strings.Cut(x.tryAsking(x.outside, "tcp", hostIPv4, 8000, 5*time.Second), " ")
		count[name]++
	}
	return count
}

// Promise: Networks and containers: Containers of a project that share a port get equal parts of its new connections
// while they are ready. If none is ready, containers of doubtful health get them.
// How: A rule of nftables selects one of them by a random number, and each change of their readiness is one
// transaction.
func TestSharedPortLeadsToReadyOwners(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	a, b, c := x.server("a", []catalog.Publish{shared(8000, 80)}), x.server("b", []catalog.Publish{shared(8000, 80)}), x.server("c", []catalog.Publish{shared(8000, 80), tcp(8001, 81)})
	expect := func(when string, names ...string) {
		t.Helper()
		got := x.served(12 * max(len(names), 1))
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, names) {
			t.Errorf("%s: %v answer, want %v", when, got, names)
		}
	}
	expect("none is ready", "")
	x.readies(sal.Doubtful, a, b)
	expect("two are doubtful", "a", "b")
	x.readies(sal.Ready, b)
	expect("one is ready", "b")
	x.readies(sal.Ready, a, c)
	expect("all are ready", "a", "b", "c")
	for from, at := range map[string]string{x.Netns: "127.0.0.1", x.outside: hostIPv6} {
		if got := x.ask(from, "tcp", at, 8000); got == "" {
			t.Errorf("no answer at %s", at)
		}
	}
	count := x.served(300) // with equal parts, fewer than 60 of one are improbable: 1 in 10 million
	for name, n := range count {
		if n < 60 || name == "" {
			t.Errorf("%q answers %d of 300 connections: %v", name, n, count)
		}
	}
	x.readies(sal.NotReady, a)
	expect("one has left", "b", "c")
	x.readies(sal.Doubtful, b, c)
	expect("the others are doubtful", "b", "c")
	x.readies(sal.Ready, c)
	for _, g := range []*guest{a, c} {
		if err := x.Release(t.Context(), g.owner); err != nil {
			t.Fatal(err)
		}
	}
	expect("the last one is doubtful", "b")
	if published, drift, err := x.Publisher().Keep(t.Context(), b.owner); err != nil || len(drift) > 0 || published[0].Share != "web" {
		t.Errorf("published are %v, drift %v, %v", published, drift, err)
	}
}

// An owner that leaves a shared port keeps its open connections. Datagrams go to another owner.
func TestOwnerLeavesSharedPort(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	ports := []catalog.Publish{shared(8000, 81), {Port: 8001, To: 53, Protocol: "udp", Share: "web"}}
	old := x.server("old", ports)
	x.readies(sal.Ready, old)
	exchange, datagrams := x.held(old, 8000), x.fixedPort(8001)
	if err := exchange("before"); err != nil {
		t.Fatal(err)
	}
	if got := datagrams(); got != "old" {
		t.Fatalf("before, a datagram reaches %q", got)
	}
	other := x.server("new", ports)
	x.readies(sal.Ready, other)
	if got := datagrams(); got != "old" {
		t.Errorf("after another one has joined, a datagram of the same client reaches %q", got)
	}
	x.readies(sal.NotReady, old)
	if err := exchange("after"); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	if got := datagrams(); got != "new" {
		t.Errorf("after it has left, a datagram reaches %q", got)
	}
	if n, err := x.Publisher().Connections(t.Context(), old.owner); n != 1 || err != nil {
		t.Errorf("it has %d connections, %v", n, err)
	}
}

// The kernel replaces a closed connection by a new one from the same port, while the closed one is about to be removed.
func TestRemovalKeepsNewConnectionOfReusedPort(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	old, other := x.server("old", []catalog.Publish{shared(8000, 80)}), x.server("new", []catalog.Publish{shared(8000, 81)})
	x.readies(sal.Ready, old)
	for i, at := range []string{hostIPv4, hostIPv6} {
		port := 20_000 + i
		c := x.dialFrom(port, at, 8000)
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "old ") {
			t.Fatalf("before: %q, %v", answer, err)
		}
		_ = c.Close()
		closed := func(f *netlink.ConntrackFlow) bool {
			p, ok := f.ProtoInfo.(*netlink.ProtoInfoTCP)
			return ok && p.State == nl.TCP_CONNTRACK_TIME_WAIT && int(f.Forward.SrcPort) == port && f.Forward.DstIP.Equal(net.ParseIP(at))
		}
		x.readies(sal.Ready, other)
		x.readies(sal.NotReady, old)
		var exchange func(string) error
		reuse := func(f *netlink.ConntrackFlow) bool {
			if !closed(f) {
				return false
			}
			x.echo(other)
			exchange = exchanging(x.dialFrom(port, at, 8000))
			return true
		}
		for until := time.Now().Add(20 * time.Second); exchange == nil && time.Now().Before(until); { // its last packet may be on its way
			testenv.InNetns(t, x.Netns, func() error {
				removeFlows(reuse)
				return nil
			})
		}
		x.readies(sal.Ready, old)
		x.readies(sal.NotReady, other) // so that the connection breaks unless the kernel remembers its owner
		if exchange == nil {
			t.Errorf("the connection to %s does not end", at)
		} else if err := exchange("after"); err != nil {
			t.Errorf("the new connection to %s: %v", at, err)
		}
	}
}

// Promise: Networks and containers: A container cannot share a port of another project, nor of its own project under
// another name, and the refusal names no resource of another project.
// How: The records of the node are the authority, and the rules of nftables cover resources of other nodes of the host.
func TestSharedPortIsTakenForOthers(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	web := x.server("web", []catalog.Publish{shared(8000, 80)})
	x.readies(sal.Ready, web)
	other := x.guest("other")
	stranger := ownerOf("stranger")
	stranger.Resource.Project = "p-stranger"
	if _, _, err := x.Namespace(t.Context(), stranger, nil); err != nil {
		t.Fatal(err)
	}
	foreign := shared(8000, 80)
	foreign.Share = "shop"
	for _, tt := range []struct {
		name  string
		owner sal.Owner
		ports catalog.Publish
		text  string
	}{
		{"another project", stranger, shared(8000, 80), "a resource of another project publishes it"},
		{"another name", other.owner, foreign, `container web shares it under the name "web"`},
		{"not shared", other.owner, tcp(8000, 80), `container web shares it under the name "web"`},
	} {
		_, err := x.Publisher().Publish(t.Context(), tt.owner, []catalog.Publish{tt.ports})
		if writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "web") && tt.owner == stranger {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := x.Publisher().SetReadiness(t.Context(), tt.owner, sal.Ready); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if got := x.served(12); got["web"] != 12 {
		t.Errorf("after the attempts of others, %v answer", got)
	}
	// another node on the same host
	second := &Driver{Dir: t.TempDir(), Overlay: x.Overlay, Netns: x.Netns, Namespaces: t.TempDir(), Open: x.Open}
	if _, _, err := second.Namespace(t.Context(), other.owner, nil); err != nil {
		t.Fatal(err)
	}
	_, err := second.Publisher().Publish(t.Context(), other.owner, []catalog.Publish{shared(8000, 80)})
	if writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), "another resource on this host") {
		t.Errorf("another node: %v", err)
	}
	if err := second.Release(t.Context(), other.owner); err != nil {
		t.Fatal(err)
	}
	// the only owner may change the name, or stop sharing
	for _, ports := range []catalog.Publish{foreign, tcp(8000, 80), shared(8000, 80)} {
		if _, err := x.Publisher().Publish(t.Context(), web.owner, []catalog.Publish{ports}); err != nil {
			t.Errorf("the only owner: %v", err)
		}
		if got := x.served(3); got["web"] != 3 {
			t.Errorf("with %v, %v answer", ports, got)
		}
	}
	run(t, x.Netns, "nft", "flush", "map", "inet", "writ", "published-tcp")
	if _, _, err := second.Namespace(t.Context(), other.owner, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Publisher().Publish(t.Context(), other.owner, []catalog.Publish{tcp(8000, 80)}); err != nil {
		t.Fatal(err)
	}
	_, err = x.Publisher().Publish(t.Context(), web.owner, []catalog.Publish{shared(8000, 80)})
	if writ.CodeOf(err) != writ.CodePortTaken || !strings.Contains(err.Error(), "another resource on this host") {
		t.Errorf("another node took the port: %v", err)
	}
	if err := second.Release(t.Context(), other.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Publisher().Publish(t.Context(), other.owner, []catalog.Publish{shared(8000, 80)}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Publisher().Publish(t.Context(), web.owner, []catalog.Publish{tcp(8000, 80)}); writ.CodeOf(err) != writ.CodePortTaken {
		t.Errorf("one of two stops sharing: %v", err)
	}
}

func TestSharedPortIsRepaired(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	before := x.fixture.traces()
	a, b := x.server("a", []catalog.Publish{shared(8000, 80)}), x.server("b", []catalog.Publish{shared(8000, 80)})
	x.readies(sal.Ready, a, b)
	full := x.fixture.traces()
	for what, damage := range map[string][]string{
		"the tables":   {"nft", "delete", "table", "inet", "writ"},
		"its rules":    {"nft", "flush", "chain", "inet", "writ", "share-tcp-8000"},
		"its map":      {"nft", "flush", "map", "inet", "writ", "published-tcp"},
		"a link":       {"ip", "link", "delete", linkDevice(a.owner.UID)},
		"a link's map": {"nft", "flush", "map", "inet", "writ", "link-source"},
	} {
		run(t, x.Netns, damage...)
		said := 0
		for _, g := range []*guest{a, b} {
			_, drift, err := x.Publisher().Keep(t.Context(), g.owner)
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			said += len(drift)
		}
		if said == 0 {
			t.Errorf("%s: no drift", what)
		}
		if diff := cmp.Diff(full, x.fixture.traces()); diff != "" {
			t.Errorf("%s: not repaired:\n%s", what, diff)
		}
		if got := x.served(24); len(got) != 2 || got[""] > 0 {
			t.Errorf("%s: repaired, %v answer", what, got)
		}
	}
	if orphans, err := x.Orphans(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("orphans are %v, %v", orphans, err)
	}
	x.Open = nil
	if _, drift, err := x.Publisher().Keep(t.Context(), a.owner); err != nil || len(drift) == 0 {
		t.Errorf("the operator closed the port: drift %v, %v", drift, err)
	}
	for netns, at := range map[string]string{x.outside: hostIPv4, x.Netns: "127.0.0.1"} {
		if !x.isCutOff(netns, at, 8000) {
			t.Errorf("a port that its operator closed is open at %s", at)
		}
	}
	for _, g := range []*guest{a, b} { // one record is damaged
		if g == b {
			path := filepath.Join(x.Dir, "ports", ownerID(b.owner.UID).HostName()+".json")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if orphans, err := x.Orphans(t.Context()); err != nil || len(orphans) != 1 {
				t.Errorf("with a damaged record, orphans are %v, %v", orphans, err)
			}
		}
		if err := x.Release(t.Context(), g.owner); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, x.fixture.traces()); diff != "" {
		t.Errorf("after both were released:\n%s", diff)
	}
}

// Promise: Networks and containers: A container that takes over a shared port from another one leaves no connection
// without an answer.
// How: One transaction exchanges the two.
func TestSharedPortsMove(t *testing.T) {
	t.Parallel()
	x := newPublishing(t)
	wanted := []catalog.Publish{shared(8000, 80)}
	old, next := x.server("old", wanted), x.server("new", nil)
	x.readies(sal.Ready, old)
	stop, counted := make(chan struct{}), make(chan map[string]int)
	go func() {
		count := map[string]int{}
		for {
			select {
			case <-stop:
				counted <- count
				return
			default:
				maps.Copy(count, x.served(1))
			}
		}
	}()
	alone := []catalog.Publish{tcp(8000, 80)}
	from, to := old.owner, next.owner
	for i, ports := range [][]catalog.Publish{wanted, wanted, alone, wanted, wanted, alone, alone, wanted, wanted} {
		if _, err := x.Publisher().Move(t.Context(), from, to, ports); err != nil {
			t.Fatalf("move %d: %v", i, err)
		}
		from, to = to, from
		if got := x.served(3); got[""] > 0 || len(got) != 1 {
			t.Errorf("after move %d, %v answer", i, got)
		}
	}
	close(stop)
	if count := <-counted; count[""] > 0 || len(count) != 2 {
		t.Errorf("the answers are of %v", count)
	}
	third := x.server("third", wanted)
	x.readies(sal.Ready, third)
	if _, err := x.Publisher().Move(t.Context(), from, to, wanted); err != nil {
		t.Fatal(err)
	}
	if got := x.served(24); len(got) != 2 || got["third"] == 0 {
		t.Errorf("with another owner, %v answer", got)
	}
}

// Promise: Networks and containers: A runner killed at any step of a change of a shared port leaves the other
// containers with connections, and the next call completes or removes the change.
// How: A container is removed from the rules of the port before its own rules, and added after them.
func TestSharedPortsSurviveACrashAtAnyStep(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var dead sync.WaitGroup
	t.Cleanup(func() {
		close(release)
		dead.Wait()
	})
	x := newPublishing(t)
	peer := x.server("peer", []catalog.Publish{shared(8000, 80)})
	x.readies(sal.Ready, peer)
	empty := x.fixture.traces()
	publish := func(ports ...catalog.Publish) func(*fixture) error {
		return func(d *fixture) error {
			if _, _, err := d.Namespace(t.Context(), ownerOf("web"), nil); err != nil {
				return err
			}
			if _, err := d.Publisher().Publish(t.Context(), ownerOf("web"), ports); err != nil {
				return err
			}
			return d.Publisher().SetReadiness(t.Context(), ownerOf("web"), sal.Ready)
		}
	}
	release1 := func(name string) func(*fixture) error {
		return func(d *fixture) error { return d.Release(t.Context(), ownerOf(name)) }
	}
	full, other, none := publish(shared(8000, 80), shared(8002, 80)), publish(tcp(8001, 80)), publish()
	move := func(d *fixture) error {
		if _, _, err := d.Namespace(t.Context(), ownerOf("next"), nil); err != nil {
			return err
		}
		_, err := d.Publisher().Move(t.Context(), ownerOf("web"), ownerOf("next"), []catalog.Publish{shared(8000, 80)})
		return err
	}
	bare := func(d *fixture) error { // only the steps of publishing are of interest
		if err := release1("web")(d); err != nil {
			return err
		}
		return none(d)
	}
	leave := func(d *fixture) error {
		return d.Publisher().SetReadiness(t.Context(), ownerOf("web"), sal.NotReady)
	}
	if err := full(x.fixture); err != nil {
		t.Fatal(err)
	}
	want := x.fixture.traces()
	stride := 5 // all steps in the nightly tier
	if testenv.IsNightly() {
		stride = 1
	}
	for _, acts := range []struct {
		name       string
		before, do func(*fixture) error
	}{
		{"while it joins", bare, full}, {"while it leaves", full, leave}, {"while it publishes another port", full, other},
		{"while it withdraws", full, none}, {"while it is released", full, release1("web")}, {"while it moves", full, move},
	} {
		for at := 0; ; at += stride {
			if err := acts.before(x.fixture); err != nil {
				t.Fatal(err)
			}
			when := fmt.Sprintf("%s, at step %d", acts.name, at)
			reached := crash(t, x.fixture, at, acts.do, release, &dead)
			// Nothing listens in the other namespaces.
			if got := x.ask(x.outside, "tcp", hostIPv4, 8000); got != "peer "+clientIPv4 {
				t.Errorf("%s: the port answers %q", when, got)
			}
			// a new driver, because the old one holds its lock
			x.Driver = &Driver{Dir: x.Dir, Overlay: x.Overlay, Netns: x.Netns, Namespaces: x.Namespaces, Open: x.Open}
			for _, owner := range []sal.Owner{ownerOf("web"), peer.owner} {
				if _, _, err := x.Publisher().Keep(t.Context(), owner); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
			if got := x.served(12); len(sal.Shared(claimsOf(t, x, ownerOf("web")))) == 0 && acts.name != "while it moves" && got["peer"] < 12 {
				t.Errorf("%s: answers = %v, want only peer", when, got)
			}
			if orphans, err := x.Orphans(t.Context()); err != nil || len(orphans) > 0 && acts.name != "while it joins" {
				t.Errorf("%s: orphans are %v, %v", when, orphans, err)
			}
			if at%2 == 0 {
				if err := release1("next")(x.fixture); err != nil {
					t.Errorf("%s: the next owner cannot be released: %v", when, err)
				}
				if err := full(x.fixture); err != nil {
					t.Errorf("%s: it cannot be done again: %v", when, err)
				}
				if diff := cmp.Diff(want, x.fixture.traces()); diff != "" {
					t.Errorf("%s, and done again:\n%s", when, diff)
				}
			}
			for _, name := range []string{"web", "next"} {
				if err := release1(name)(x.fixture); err != nil {
					t.Errorf("%s: %s cannot be released: %v", when, name, err)
				}
			}
			if diff := cmp.Diff(empty, x.fixture.traces()); diff != "" {
				t.Errorf("%s, and released:\n%s", when, diff)
			}
			if got := x.tryAsking(x.outside, "tcp", hostIPv4, 8000, 5*time.Second); !strings.HasPrefix(got, "peer ") {
				t.Errorf("%s, and released: the port answers %q", when, got)
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
