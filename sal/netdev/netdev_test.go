//go:build linux

package netdev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/needs"
	"writ/sal/saltest"
)

// overlay is a sal.Overlay without a daemon.
type overlay netip.Prefix

func (o overlay) Subnet(context.Context) (netip.Prefix, error) { return netip.Prefix(o), nil }

func (o overlay) Address(context.Context) (netip.Addr, error) {
	return netip.Prefix(o).Addr().Next(), nil
}

var (
	_ sal.Keeper   = (*Driver)(nil)
	_ sal.Networks = (*Driver)(nil)
	_ sal.Traffic  = (*Driver)(nil)
)

var subnetA = netip.MustParsePrefix("400:aaaa:1:1::/64")

// fixtures gives each directory of the suite a network namespace.
type fixtures struct {
	mu     sync.Mutex
	netns  map[string]string
	subnet netip.Prefix
}

func (s *fixtures) of(t testing.TB, host string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.netns[host] == "" {
		s.netns[host] = testenv.Netns(t)
	}
	return s.netns[host]
}

// clear removes the namespace of a host and its content. The next use creates a new one.
func (s *fixtures) clear(t testing.TB, host string) {
	t.Helper()
	for _, file := range glob(t, host, "namespaces/*") {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Errorf("unmount %s: %v", file, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.netns, host)
}

func (s *fixtures) open(t testing.TB, host string, step func(string)) *Driver {
	return &Driver{
		Dir: filepath.Join(host, "network"), Overlay: overlay(s.subnet), Netns: s.of(t, host),
		Namespaces: filepath.Join(host, "namespaces"), Step: step,
	}
}

func glob(t testing.TB, host, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(host, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// traces returns links, addresses, routes and rules in a namespace, and files of other namespaces, without transient
// ones.
func (s *fixtures) traces(t testing.TB, host string) (all []string) {
	t.Helper()
	netns := s.of(t, host)
	kernel, closeKernel, err := handleAt(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer closeKernel()
	links, err := kernel.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		all = append(all, fmt.Sprintf("link %s %s %q", l.Attrs().Name, l.Type(), l.Attrs().Alias))
	}
	addresses, err := kernel.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			all = append(all, "address "+a.IPNet.String())
		}
	}
	routes, err := kernel.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if !r.Dst.IP.IsLinkLocalUnicast() {
			all = append(all, fmt.Sprintf("route %s %v", r.Dst, r.Gw))
		}
	}
	for line := range strings.Lines(run(t, netns, "nft", "list", "ruleset")) {
		if !strings.Contains(line, "packets") {
			all = append(all, "rules "+strings.TrimSpace(line))
		}
	}
	return append(all, glob(t, host, "namespaces/*")...)
}

// run runs a tool in a network namespace and returns its output.
func run(t testing.TB, netns string, args ...string) string {
	t.Helper()
	said, err := try(t, netns, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return said
}

func try(t testing.TB, netns string, args ...string) (said string, err error) {
	t.Helper()
	path := testenv.Need(t, args[0])
	testenv.InNetns(t, netns, func() error {
		var text []byte
		text, err = exec.Command(path, args[1:]...).CombinedOutput()
		said = string(text)
		return nil
	})
	return said, err
}

// Promise: Networks and containers: A runner killed at any step of a network or port leaves a state that the next
// call completes or removes.
// How: Record, rules and link are created in this order and removed in reverse.
// Also: TestPortsSurviveACrashAtAnyStep.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := &fixtures{netns: map[string]string{}, subnet: subnetA}
	rule := func(ports ...any) map[string]any { return map[string]any{"protocol": "tcp", "ports": ports} }
	saltest.Run(t, saltest.Suite{
		Open:      func(t testing.TB, host string, step func(string)) sal.Driver { return s.open(t, host, step) },
		Make:      saltest.Step{Operation: "network.create"},
		Immutable: map[string]any{"ipv4": "10.77.0.0/24"},
		Steps: []saltest.Step{
			{Operation: "network.allow", Args: map[string]any{"rules": []any{rule(int64(80), int64(443))}}},
		},
		Clear:  s.clear,
		Traces: s.traces,
	})
}

// fixture is a host with a driver, for tests that inspect packets.
type fixture struct {
	*Driver
	testing.TB
	dir string
}

func newFixture(t testing.TB, subnet netip.Prefix) *fixture {
	t.Helper()
	s := &fixtures{netns: map[string]string{}, subnet: subnet}
	dir := t.TempDir()
	x := &fixture{Driver: s.open(t, dir, nil), TB: t, dir: dir}
	t.Cleanup(func() { s.clear(t, dir) })
	return x
}

// do executes an operation on a network.
func (x *fixture) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	x.Helper()
	o, _ := catalog.Lookup(operation)
	decoded, err := o.Decode(args)
	if err != nil {
		x.Fatal(err)
	}
	return x.Do(x.Context(), sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindNetwork, name), UID: saltest.RefTo(writ.KindNetwork, name).UID, Args: decoded,
		Progress: func(string) {},
	})
}

func (x *fixture) must(operation, name string, args map[string]any) sal.Outcome {
	x.Helper()
	o, err := x.do(operation, name, args)
	if err != nil {
		x.Fatalf("%s %s: %s: %v", operation, name, writ.CodeOf(err), err)
	}
	return o
}

// guest is a namespace on networks, like the one of a container.
type guest struct {
	*fixture
	owner sal.Owner
	netns string
	ports []sal.Port
}

func (x *fixture) guest(name string, networks ...string) *guest {
	x.Helper()
	g := &guest{fixture: x, owner: ownerOf(name)}
	var err error
	if g.netns, g.ports, err = x.Namespace(x.Context(), g.owner, refs(networks)); err != nil {
		x.Fatalf("put %s on %v: %v", name, networks, err)
	}
	return g
}

func ownerOf(name string) sal.Owner {
	return sal.Owner{Resource: saltest.Resource(writ.KindContainer, name), UID: saltest.RefTo(writ.KindContainer, name).UID}
}

func refs(networks []string) (all []writ.Ref) {
	for _, n := range networks {
		all = append(all, saltest.RefTo(writ.KindNetwork, n))
	}
	return all
}

func (g *guest) address() string { return g.ports[0].IPv6.Addr().String() }

// reaches waits until an address answers: the first packets of a new link may be lost or rejected.
func (g *guest) reaches(to string, options ...string) bool {
	g.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if g.ping(to, append(options, "-c", "1", "-W", "1")) {
			return true
		}
	}
	return false
}

// cutOff reports whether an address ignores a few packets.
func (g *guest) cutOff(to string, options ...string) bool {
	g.Helper()
	return !g.ping(to, append(options, "-c", "3", "-W", "0.2", "-i", "0.05"))
}

// ping returns at the first answer.
func (g *guest) ping(to string, options []string) (answered bool) {
	g.Helper()
	path := testenv.Need(g, "ping")
	testenv.InNetns(g, g.netns, func() error {
		cmd := exec.Command(path, append(append([]string{"-n"}, options...), to)...)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return err
		}
		for lines := bufio.NewScanner(out); lines.Scan() && !answered; {
			answered = strings.Contains(lines.Text(), "bytes from")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil
	})
	return answered
}

func (g *guest) dropped() writ.PortDrops { return g.droppedAt(g.owner) }

// droppedAt sums the packets that were dropped at the ports of an owner.
func (x *fixture) droppedAt(owner sal.Owner) (sum writ.PortDrops) {
	x.Helper()
	state, err := x.Network(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	for _, p := range state.Ports {
		if p.Owner == owner.Resource.String() {
			sum.Denied, sum.Spoofed = sum.Denied+p.Denied, sum.Spoofed+p.Spoofed
		}
	}
	return sum
}

// Promise: Networks and containers: A deleted network leaves no link, address, route, rule, namespace or file.
// How: Names derive from ids and are recorded before the first change; links carry a mark; rules change in one
// transaction.
func TestDeleteLeavesNoLinksOrRules(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	before := x.traces()
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	x.must("network.create", "back", nil)
	x.must("network.allow", "front", map[string]any{"rules": []any{
		map[string]any{"protocol": "tcp", "ports": []any{int64(80), int64(443)}, "from": []any{"400::/7", "10.0.0.0/8", "10.1.0.0/16"}},
		map[string]any{"protocol": "icmp"},
	}})
	useless := map[string]any{"rules": []any{map[string]any{"from": []any{"10.0.0.0/8", "0.0.0.0/0"}}}}
	if _, err := x.do("network.allow", "back", useless); writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), "rules[0]") {
		t.Errorf("a rule for IPv4 on a network without IPv4: %v", err)
	}
	web := x.guest("web", "front", "back")
	vm := ownerOf("vm")
	_, err := x.Taps(t.Context(), vm, refs([]string{"front"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.do("network.delete", "front", nil)
	if writ.CodeOf(err) != writ.CodeResourceBusy || !strings.Contains(err.Error(), "container vm, container web") && !strings.Contains(err.Error(), "container web, container vm") {
		t.Errorf("a network with ports on it is deleted: %v", err)
	}
	owners, err := x.Owners(t.Context())
	if err != nil || len(owners) != 2 {
		t.Errorf("owners are %v, %v", owners, err)
	}
	for _, o := range []sal.Owner{web.owner, vm, web.owner} {
		if err := x.Release(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	x.must("network.delete", "front", nil)
	x.must("network.delete", "back", nil)
	if after := x.traces(); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if files, _ := os.ReadDir(filepath.Join(x.Dir, "ports")); len(files) > 0 {
		t.Errorf("records are left: %v", files)
	}
}

// Promise: Networks and containers: Traffic enters a network from outside only if `network.allow` permits it, and
// dropped packets are counted.
// How: nftables, one chain per port, replies by connection tracking.
func TestIncomingTrafficNeedsARule(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	x.must("network.create", "front", nil)
	x.must("network.create", "back", nil)
	web, db, other := x.guest("web", "front"), x.guest("db", "front"), x.guest("other", "back")
	if !web.reaches(db.address()) {
		t.Error("two on one network do not reach each other")
	}
	if !web.reaches(web.ports[0].Gateway.String()) {
		t.Error("the gateway does not answer")
	}
	if !other.cutOff(web.address()) {
		t.Error("a packet entered a closed network")
	}
	if d := web.dropped(); d.Denied == 0 {
		t.Errorf("dropped packets were not counted: %+v", d)
	}
	x.must("network.allow", "front", map[string]any{"rules": []any{map[string]any{"protocol": "icmp", "from": []any{other.ports[0].IPv6.Masked().String()}}}})
	if !other.reaches(web.address()) {
		t.Error("allowed packets are dropped")
	}
	if !web.cutOff(other.address()) {
		t.Error("an open network opens others")
	}
	x.must("network.allow", "front", map[string]any{"rules": []any{}})
	if !other.cutOff(web.address()) {
		t.Error("a network that was closed is open")
	}
	received, sent, err := x.Traffic(t.Context(), web.owner)
	if err != nil || received == 0 || sent == 0 {
		t.Errorf("traffic: %d, %d, %v", received, sent, err)
	}
}

// Other tests configure the namespace of the host; a node uses the namespace of its process.
func TestDriverUsesTheNamespaceOfItsProcess(t *testing.T) {
	t.Parallel()
	if !testenv.OwnNetns(t) {
		return
	}
	x := newFixture(t, subnetA)
	x.Netns = "" // the one of the process
	if err := needs.Refusal(needs.Examine(t.Context(), "network", x.Needs())); err != nil {
		t.Fatal(err)
	}
	x.must("network.create", "front", nil)
	web, db := x.guest("web", "front"), x.guest("db", "front")
	if _, err := x.Taps(t.Context(), ownerOf("vm"), refs([]string{"front"})); err != nil {
		t.Error(err)
	}
	if !web.reaches(db.address()) {
		t.Error("they do not reach each other")
	}
	for _, name := range []string{"web", "db", "vm"} {
		if err := x.Release(t.Context(), ownerOf(name)); err != nil {
			t.Error(err)
		}
	}
	x.must("network.delete", "front", nil)
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		t.Errorf("left are %+v, %v", links, err)
	}
}

// Promise: Networks and containers: A member of a network cannot send under another member's address.
// How: nftables at the bridge compares hardware and IP address, also in ARP and neighbour discovery.
// Also: TestMachineCannotSpoofThroughItsTap.
func TestAGuestCannotSpoofAnAddress(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	x.must("network.create", "front", nil)
	bad, victim := x.guest("bad", "front"), x.guest("victim", "front")
	if !bad.reaches(victim.address()) {
		t.Fatal("they do not reach each other to begin with")
	}
	if d := bad.dropped(); d.Spoofed != 0 {
		t.Errorf("honest packets count as false: %+v", d)
	}
	other := bad.ports[0].IPv6.Addr().Next().String()
	for _, tt := range []struct {
		what    string
		forge   []string
		options []string
	}{
		{"a false hardware address", []string{"ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"}, nil},
		{"its own again", []string{"ip", "link", "set", "eth0", "address", bad.ports[0].MAC.String()}, nil},
		{"another's address", []string{"ip", "address", "add", other + "/96", "dev", "eth0", "nodad"}, []string{"-I", other}},
	} {
		run(t, bad.netns, tt.forge...)
		if tt.what == "its own again" {
			if !bad.reaches(victim.address()) {
				t.Error("no answer with its own address")
			}
			continue
		}
		before := bad.dropped().Spoofed
		if !bad.cutOff(victim.address(), tt.options...) {
			t.Errorf("with %s it gets an answer", tt.what)
		}
		if after := bad.dropped().Spoofed; after <= before {
			t.Errorf("%s: %d packets were counted before and %d after", tt.what, before, after)
		}
	}
	run(t, bad.netns, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:99")
	drift, err := x.Keep(t.Context(), saltest.Resource(writ.KindNetwork, "front"))
	if err != nil || len(drift) != 2 || !bad.reaches(victim.address()) {
		t.Errorf("an interface that was changed by hand is not put right: %+v, %v", drift, err)
	}
}
