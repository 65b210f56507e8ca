//go:build linux

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/needs"
	"writ/sal/saltest"
)

// front creates a network for the tests below.
func front(t testing.TB) *fixture {
	x := newFixture(t, subnetA)
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/29"})
	return x
}

func (x *fixture) traces() []string {
	x.Helper()
	s := &fixtures{netns: map[string]string{x.dir: x.Netns}}
	all := s.traces(x, x.dir)
	slices.Sort(all) // the kernel numbers links in order of creation
	return all
}

func comparable(t testing.TB, a, b any) string {
	t.Helper()
	return cmp.Diff(a, b, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}))
}

func (x *fixture) tap(name string) ([]sal.Port, error) {
	return x.Taps(x.Context(), ownerOf(name), refs([]string{"front"}))
}

func TestPortsSurviveACrashAtAnyStep(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var dead sync.WaitGroup
	t.Cleanup(func() {
		close(release)
		dead.Wait()
	})
	hold := func(x *fixture) error {
		_, err := x.tap("vm")
		if err == nil {
			_, _, err = x.Namespace(t.Context(), ownerOf("web"), refs([]string{"front"}))
		}
		return err
	}
	letGo := func(x *fixture) error {
		if err := x.Release(t.Context(), ownerOf("vm")); err != nil {
			return err
		}
		return x.Release(t.Context(), ownerOf("web"))
	}
	x := front(t)
	empty := x.traces()
	if err := hold(x); err != nil {
		t.Fatal(err)
	}
	full := x.traces()
	for name, acts := range map[string]struct {
		before, do func(*fixture) error
	}{
		"while they are made":       {letGo, hold},
		"while they are taken away": {hold, letGo},
	} {
		for at := 0; ; at++ {
			if err := acts.before(x); err != nil {
				t.Fatal(err)
			}
			when := fmt.Sprintf("%s, at step %d", name, at)
			if !crash(t, x, at, acts.do, release, &dead) {
				t.Logf("%s: no such step", when)
				break
			}
			// Open a new driver: the old one holds its lock.
			x.Driver = &Driver{Dir: x.Dir, Overlay: x.Overlay, Netns: x.Netns, Namespaces: x.Namespaces}
			if _, err := x.Keep(t.Context(), saltest.Resource(writ.KindNetwork, "front")); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if at%2 == 0 {
				if err := hold(x); err != nil {
					t.Errorf("%s: it cannot be done again: %v", when, err)
				}
				if diff := cmp.Diff(full, x.traces()); diff != "" {
					t.Errorf("%s, and done again:\n%s", when, diff)
				}
			}
			if err := letGo(x); err != nil {
				t.Errorf("%s: it cannot be taken away: %v", when, err)
			}
			if diff := cmp.Diff(empty, x.traces()); diff != "" {
				t.Errorf("%s, and taken away:\n%s", when, diff)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// crash stops a driver at a step like SIGKILL, and reports whether it reached the step.
func crash(t *testing.T, x *fixture, at int, do func(*fixture) error, release chan struct{}, dead *sync.WaitGroup) (reached bool) {
	stopped, finished := make(chan struct{}), make(chan error, 1)
	steps := 0
	doomed := &fixture{TB: t, dir: x.dir, Driver: &Driver{Dir: x.Dir, Overlay: x.Overlay, Netns: x.Netns, Namespaces: x.Namespaces, Open: x.Open, Step: func(string) {
		if steps == at {
			close(stopped)
			<-release
			runtime.Goexit()
		}
		steps++
	}}}
	dead.Go(func() { finished <- do(doomed) })
	select {
	case <-stopped:
		return true
	case err := <-finished:
		if err != nil {
			t.Error(err)
		}
		return false
	}
}

func TestPortsAreStable(t *testing.T) {
	t.Parallel()
	x := front(t)
	x.must("network.create", "back", nil)
	web := x.guest("web", "front", "back")
	again := x.guest("web", "front", "back")
	if diff := comparable(t, web.ports, again.ports); diff != "" {
		t.Errorf("asked again it gets others:\n%s", diff)
	}
	turned := x.guest("web", "back", "front")
	if diff := comparable(t, []sal.Port{web.ports[1], web.ports[0]}, turned.ports); diff != "" {
		t.Errorf("in another order it gets others:\n%s", diff)
	}
	one := x.guest("web", "back")
	if diff := comparable(t, web.ports[1:], one.ports); diff != "" {
		t.Errorf("taken off one network it gets others:\n%s", diff)
	}
	x.must("network.delete", "front", nil)
	if alone := x.guest("alone"); len(alone.ports) != 0 || !strings.Contains(run(t, alone.netns, "ip", "-brief", "link"), "UNKNOWN") {
		t.Errorf("interfaces without a network: %+v, want loopback only", alone.ports)
	}
	_, err := x.Taps(t.Context(), web.owner, nil)
	if writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("an owner with a namespace gets taps: %v", err)
	}
}

// The first network is the preferred one, and a reply has the address that the request was sent to.
func TestRoutesFollowTheOrderOfNetworks(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	for _, name := range []string{"front", "back", "side", "outside"} {
		x.must("network.create", name, nil)
		x.must("network.allow", name, map[string]any{"rules": []any{map[string]any{"protocol": "icmp"}}})
	}
	other := x.guest("other", "outside")
	for _, order := range [][]string{{"front", "back", "side"}, {"side", "front", "back"}, {"front", "back"}, {"back"}, {"side", "back"}} {
		web := x.guest("web", order...)
		if route := run(t, web.netns, "ip", "-6", "route", "get", "4ff::1"); !strings.Contains(route, " src "+web.address()+" ") {
			t.Errorf("on %v packets leave by %s", order, route)
		}
		for i, p := range web.ports {
			if !other.reaches(p.IPv6.Addr().String()) {
				t.Errorf("on %v the address on %s does not answer", order, order[i])
			}
		}
		if rules := strings.Count(run(t, web.netns, "ip", "-6", "rule"), "lookup 10"); rules != len(order)-1 {
			t.Errorf("%v: %d rules", order, rules)
		}
	}
}

// The owner of a port is identified by the id of the caller.
func TestPortsOfADamagedRecordAreReleased(t *testing.T) {
	x := front(t)
	empty := x.traces()
	first, err := x.tap("vm")
	if err != nil {
		t.Fatal(err)
	}
	full := x.traces()
	damage := func() {
		t.Helper()
		path := filepath.Join(x.Dir, "ports", ownerID(ownerOf("vm").UID).HostName()+".json")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		orphans, err := x.Orphans(t.Context())
		if diff := cmp.Diff([]sal.Orphan{{Kind: "damaged record", Name: path, Of: strings.TrimSuffix(filepath.Base(path), ".json")}}, orphans); err != nil || diff != "" {
			t.Errorf("orphans: %v\n%s", err, diff)
		}
	}
	damage()
	o, _ := catalog.Lookup("network.delete")
	network := saltest.Resource(writ.KindNetwork, "front")
	gone := sal.Request{Operation: o, Resource: network, UID: saltest.RefTo(writ.KindNetwork, "front").UID, Progress: func(string) {}}
	if _, err := x.Do(t.Context(), gone); writ.CodeOf(err) != writ.CodeRecordDamaged {
		t.Errorf("a network with a damaged record is deleted: %v", err)
	}
	if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
		t.Errorf("the network has drifted: %v, %v", drift, err)
	}
	again, err := x.tap("vm")
	if diff := comparable(t, first, again); err != nil || diff != "" {
		t.Errorf("it gets other ports: %v\n%s", err, diff)
	}
	if diff := cmp.Diff(full, x.traces()); diff != "" {
		t.Errorf("traces on the host differ:\n%s", diff)
	}
	damage()
	if err := x.Release(t.Context(), ownerOf("vm")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(empty, x.traces()); diff != "" {
		t.Errorf("left is:\n%s", diff)
	}
	if orphans, err := x.Orphans(t.Context()); err != nil || len(orphans) > 0 {
		t.Errorf("left are %v, %v", orphans, err)
	}
}

func TestPortsOfAnIPv4RangeRunOut(t *testing.T) {
	t.Parallel()
	x := front(t) // a /29: five addresses and the router's
	seen := map[netip.Addr]bool{}
	for i := range 5 {
		ports, err := x.tap(fmt.Sprintf("vm-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		seen[ports[0].IPv4.Addr()] = true
	}
	if len(seen) != 5 {
		t.Errorf("addresses were given twice: %v", seen)
	}
	if _, err := x.tap("vm-6"); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("the sixth gets %v", err)
	}
	if err := x.Release(t.Context(), ownerOf("vm-3")); err != nil {
		t.Fatal(err)
	}
	if _, err := x.tap("vm-6"); err != nil {
		t.Errorf("an address that was given back is not to be had: %v", err)
	}
}

// Promise: Networks and containers: writ leaves foreign network interfaces alone.
// How: It uses only interfaces with its mark.
func TestForeignInterfaceStaysUnchanged(t *testing.T) {
	t.Parallel()
	x := front(t)
	vm := ownerOf("vm")
	name := device(vm.UID, port{})
	run(t, x.Netns, "ip", "tuntap", "add", name, "mode", "tap")
	_, err := x.tap("vm")
	if writ.CodeOf(err) != writ.CodeResourceConflict || writ.AsError(err).Hint == "" {
		t.Errorf("a tap that is taken: %v", err)
	}
	if owners, err := x.Owners(t.Context()); err != nil || len(owners) > 0 {
		t.Errorf("owners after a refused port = %v, %v", owners, err)
	}
	if err := x.Release(t.Context(), vm); err != nil {
		t.Error(err)
	}
	if said := run(t, x.Netns, "ip", "-brief", "link"); !strings.Contains(said, name) {
		t.Error("it was taken away")
	}
	run(t, x.Netns, "ip", "link", "delete", name)
	if _, err := x.tap("vm"); err != nil {
		t.Error(err)
	}

	// The interface of the driver was removed, and another program uses its name.
	run(t, x.Netns, "ip", "link", "delete", name)
	run(t, x.Netns, "ip", "tuntap", "add", name, "mode", "tap")
	drift, err := x.Keep(t.Context(), saltest.Resource(writ.KindNetwork, "front"))
	if err != nil || len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, name) {
		t.Errorf("it finds %+v, %v", drift, err)
	}

	bridge := saltest.Resource(writ.KindNetwork, "back").HostName()
	run(t, x.Netns, "ip", "link", "add", bridge, "type", "bridge")
	if _, err := x.do("network.create", "back", nil); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("a bridge that is taken: %v", err)
	}
	if all, _ := x.List(t.Context()); len(all) != 1 {
		t.Errorf("a failed network left a record: %v", all)
	}
}

// Promise: Volumes and images: A network takes no address range from its node that another host may use.
// How: Private ranges only, compared with the addresses and routes of the host.
func TestRangesDoNotOverlap(t *testing.T) {
	t.Parallel()
	x := front(t)
	run(t, x.Netns, "ip", "link", "add", "uplink", "type", "bridge")
	run(t, x.Netns, "ip", "address", "add", "192.168.7.2/24", "dev", "uplink")
	run(t, x.Netns, "ip", "link", "set", "uplink", "up")
	run(t, x.Netns, "ip", "route", "add", "172.20.0.0/16", "via", "192.168.7.1")
	run(t, x.Netns, "ip", "route", "add", "default", "via", "192.168.7.1")
	for _, taken := range []string{"10.77.0.0/24", "10.0.0.0/8", "192.168.0.0/16", "192.168.7.0/30", "172.20.4.0/24"} {
		_, err := x.do("network.create", "back", map[string]any{"ipv4": taken})
		if writ.CodeOf(err) != writ.CodeResourceConflict || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v", taken, err)
		}
	}
	x.must("network.create", "back", map[string]any{"ipv4": "172.21.0.0/24"})
}

// A host that rebooted has the records and no links.
//
// Promise: Networks and containers: Networks are restored after a reboot, and a removed part returns within half a
// minute.
// How: The runner compares kernel and record.
// Also: TestRemovedPartsOfANetworkAreRepaired.
func TestEverythingComesBackAfterAReboot(t *testing.T) {
	t.Parallel()
	s := &fixtures{netns: map[string]string{}, subnet: subnetA}
	dir := t.TempDir()
	t.Cleanup(func() { s.clear(t, dir) })
	x := &fixture{TB: t, dir: dir, Driver: s.open(t, dir, nil)}
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	x.must("network.allow", "front", map[string]any{"rules": []any{map[string]any{"protocol": "icmp"}}})
	web := x.guest("web", "front")
	if _, err := x.tap("vm"); err != nil {
		t.Fatal(err)
	}
	before := x.traces()

	s.clear(t, dir)
	x.Driver = s.open(t, dir, nil)
	network := saltest.Resource(writ.KindNetwork, "front")
	drift, err := x.Keep(t.Context(), network)
	if err != nil || len(drift) == 0 {
		t.Errorf("it finds %+v, %v", drift, err)
	}
	for _, d := range drift {
		if !d.Mended {
			t.Errorf("it cannot mend that %s", d.What)
		}
	}
	if diff := cmp.Diff(before, x.traces()); diff != "" {
		t.Error(diff)
	}
	if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
		t.Errorf("the second time it finds %+v, %v", drift, err)
	}
	if again := x.guest("web", "front"); comparable(t, web.ports, again.ports) != "" || !again.reaches(again.ports[0].Gateway.String()) {
		t.Errorf("new port = %+v", again.ports)
	}
}

func TestRemovedPartsOfANetworkAreRepaired(t *testing.T) {
	t.Parallel()
	x := front(t)
	x.must("network.allow", "front", map[string]any{"rules": []any{map[string]any{"ports": []any{int64(80)}}}})
	web := x.guest("web", "front")
	network := saltest.Resource(writ.KindNetwork, "front")
	bridge := network.HostName()
	port := device(web.owner.UID, port{})
	for _, change := range [][]string{
		{"ip", "link", "delete", bridge},
		{"ip", "link", "delete", port},
		{"ip", "link", "set", port, "nomaster"},
		{"ip", "link", "set", bridge, "down"},
		{"ip", "link", "set", bridge, "mtu", "1280"},
		{"ip", "address", "flush", "dev", bridge, "scope", "global"},
		{"ip", "address", "add", "10.9.9.9/24", "dev", bridge},
		{"nft", "flush", "ruleset"},
		{"nft", "flush", "chain", "inet", "writ", "allow-" + bridge},
		{"nft", "flush", "map", "bridge", "writ", "ports"},
		{"nft", "add", "rule", "inet", "writ", "allow-" + bridge, "accept"},
	} {
		run(t, x.Netns, change...)
		drift, err := x.Keep(t.Context(), network)
		if err != nil || len(drift) == 0 || slices.ContainsFunc(drift, func(d sal.Drift) bool { return !d.Mended }) {
			t.Errorf("after %v it finds %+v, %v", change, drift, err)
		}
		if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
			t.Errorf("after %v it is not mended: %+v, %v", change, drift, err)
		}
	}
	if !web.reaches(web.ports[0].Gateway.String()) {
		t.Error("the gateway does not answer at the end")
	}
}

// Promise: Repair and usage: Leftovers on a node that belong to no resource are listed with a command that removes
// them.
// How: Names and marks of writ are compared with the records at each check; a command is shown whole or not shown.
// Also: TestKeepReportsMissingContent, TestOnlyLeftoversAreOrphans, TestAnUnrecordedEngineIsAnOrphan.
func TestOrphansAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	x := front(t)
	web := x.guest("web", "front")
	if _, err := x.tap("vm"); err != nil {
		t.Fatal(err)
	}
	name := saltest.Resource(writ.KindNetwork, "front").HostName()
	records := x.Dir
	x.Dir = t.TempDir() // another node on the host, with the same directory of namespaces
	others, err := x.Orphans(t.Context())
	if err != nil || slices.ContainsFunc(others, func(o sal.Orphan) bool { return o.Kind == "namespace" }) {
		t.Errorf("another node lists namespaces that are not its own: %+v, %v", others, err)
	}
	x.Dir = records
	if err := errors.Join(os.RemoveAll(filepath.Join(records, "networks")), os.RemoveAll(filepath.Join(records, "ports"))); err != nil {
		t.Fatal(err)
	}
	orphans, err := x.Orphans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pair, tap, space := device(web.owner.UID, port{}), device(ownerOf("vm").UID, port{}), ownerID(web.owner.UID).HostName()
	for _, want := range []sal.Orphan{
		{Kind: "bridge", Name: name, Of: name, Remedy: "ip link delete " + name},
		{Kind: "veth", Name: pair, Remedy: "ip link delete " + pair}, {Kind: "tuntap", Name: tap, Remedy: "ip link delete " + tap},
		{Kind: "chain", Name: "inet writ allow-" + name, Remedy: "nft 'flush chain inet writ allow-" + name + "; delete chain inet writ allow-" + name + "'"},
		{Kind: "namespace", Name: space, Remedy: "umount -l " + x.Namespaces + "/" + space + "; rm " + x.Namespaces + "/" + space},
	} {
		if !slices.Contains(orphans, want) {
			t.Errorf("%+v is not among %+v", want, orphans)
		}
	}
	testenv.InNetns(t, x.Netns, func() error {
		testenv.Empties(t, saltest.Remedies(t, x))
		return nil
	})
}

func TestNetworkAcceptsTheMaximumOfRules(t *testing.T) {
	t.Parallel()
	x := front(t)
	var rules []any
	for i := range 256 {
		var ports, from []any
		for j := range 64 {
			ports = append(ports, int64(1000+i*64+j))
			from = append(from, fmt.Sprintf("400:%x:%x::/64", i+1, 2*j), fmt.Sprintf("10.%d.%d.0/24", i, 2*j))
		}
		rules = append(rules, map[string]any{"protocol": "any", "ports": ports, "from": from[:64]})
	}
	o := x.must("network.allow", "front", map[string]any{"rules": rules})
	if o.Values["rules"] != int64(256) {
		t.Errorf("%v", o.Values)
	}
	if drift, err := x.Keep(t.Context(), saltest.Resource(writ.KindNetwork, "front")); err != nil || len(drift) > 0 {
		t.Errorf("it finds %+v, %v", drift, err)
	}
}

func TestNeedsOfNetworksAreChecked(t *testing.T) {
	t.Parallel()
	d := &Driver{Netns: testenv.Netns(t)}
	for _, f := range needs.Examine(t.Context(), "network", d.Needs()) {
		if f.State != needs.OK {
			t.Errorf("%+v", f)
		}
	}
	d.Netns = filepath.Join(t.TempDir(), "nowhere")
	if err := needs.Refusal(needs.Examine(t.Context(), "network", d.Needs())); writ.CodeOf(err) != writ.CodeDriverMissing || writ.AsError(err).Hint == "" {
		t.Errorf("missing namespace: %v", err)
	}
}

func TestManyGetPortsAtOnce(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	x.must("network.create", "front", nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[netip.Addr]bool{}
	for i := range 12 {
		all.Go(func() {
			ports, err := x.tap(fmt.Sprintf("vm-%d", i))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[ports[0].IPv6.Addr()] = true
		})
	}
	all.Wait()
	if len(seen) != 12 {
		t.Errorf("%d addresses for 12", len(seen))
	}
}
