package runnerd

import (
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/cloudhypervisor"
	"writ/sal/image"
	"writ/sal/needs"
	"writ/sal/netdev"
)

func TestNameserversAreThoseThatWereNamed(t *testing.T) {
	nameservers := func(named ...string) []netip.Addr {
		t.Helper()
		c := driverConfig{Host: HostConfig{Nameservers: named}}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		servers := newHost(c, t.TempDir()).networks.Nameservers
		if servers == nil {
			return nil
		}
		return servers()
	}
	if got := nameservers("192.0.2.53", "400:1::53"); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("400:1::53")}) {
		t.Errorf("nameservers = %v", got)
	}
	if got, want := nameservers(), netdev.HostNameservers(); !slices.Equal(got, want) {
		t.Errorf("nameservers by default = %v, want those of the host, %v", got, want)
	}
	if got := nameservers("none"); got != nil {
		t.Errorf("nameservers with none = %v, want none", got)
	}
	for _, wrong := range [][]string{{"dns.example.org"}, {"192.0.2.53", "none"}, {"127.0.0.53"}, {"::"}, {"ff02::fb"}} {
		c := driverConfig{Host: HostConfig{Nameservers: wrong}}
		if err := c.check(); writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
			t.Errorf("--nameserver %v: %v", wrong, err)
		}
	}
}

//go:generate go test . -run ^TestManualSaysWhatHostsNeed$ -update

var update = flag.Bool("update", false, "write the tables of the manual that are made from the drivers")

// TestManualSaysWhatHostsNeed compares the tables of the manual with the needs that the drivers declare. Runners and
// `writ doctor` check the same needs.
func TestManualSaysWhatHostsNeed(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../../../../docs/manual/hosts.md", "<!-- tables -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := before + begin + needsTables(newHost(driverConfig{}, t.TempDir())) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		text = []byte(want)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s differs from the drivers; run `go generate ./cmd/writ/internal/daemon` (-drivers +file):\n%s", page, diff)
	}
}

func needsTables(h *hostDrivers) string {
	var b strings.Builder
	for _, m := range h.needs() {
		fmt.Fprintf(&b, "\n## %s\n\n| need | | without it | command |\n| --- | --- | --- | --- |\n", m.module)
		for _, n := range m.Needs() {
			vital := ""
			if n.Vital {
				vital = "vital"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", n.Name, vital, n.Use, strings.ReplaceAll(n.Fix, "|", `\|`))
		}
	}
	return b.String() + "\n"
}

// A runner offers exactly the modules that `writ doctor` reports as ok or degraded.
//
// Promise: Commands and hosts: `writ doctor`, a runner and the manual agree on the missing features of a host, with
// effect and remedy.
// How: Drivers declare their needs once, each with its check.
// Also: TestManualSaysWhatHostsNeed, TestScripts/doctor, TestNeedsOfNetworksAreChecked.
func TestRunnerOffersModulesThatTheDoctorAccepts(t *testing.T) {
	if !alone(t) {
		return
	}
	// A host without programs has no machines and databases.
	bin, dir := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	config := HostConfig{Containerd: filepath.Join(dir, "none.sock"), ProcessUsers: noUsers, ContainerIDs: noUsers}
	var lacking map[string]string
	offered := func() (modules []string) {
		t.Helper()
		lacking = map[string]string{}
		opened, err := openDrivers(t.Context(), driverConfig{Choice: DriversHost, Dir: hostDir(dir), Host: config, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.close()
		for _, d := range opened.lacking {
			lacking[d.Module] = d.Lacks
		}
		var users []sal.ImageUsers
		for _, d := range opened.all {
			modules = append(modules, d.Describe().Module)
			if images, ok := d.(*image.Driver); ok {
				users = images.Users
			}
		}
		asked := func(u sal.ImageUsers) bool { _, machines := u.(*cloudhypervisor.Driver); return machines }
		if slices.Contains(users, nil) || slices.Contains(modules, "machine") != slices.ContainsFunc(users, asked) {
			t.Errorf("a runner offers %v, users of images = %T", modules, users)
		}
		return modules
	}
	check := func(want map[string]bool) {
		t.Helper()
		found, err := HostNeeds(t.Context(), dir, config)
		if err != nil {
			t.Fatal(err)
		}
		missing := map[string]bool{}
		for _, f := range found {
			if f.State != needs.OK && (f.Use == "" || f.Fix == "") {
				t.Errorf("finding without a use or fix: %+v", f)
			}
			missing[f.Module] = missing[f.Module] || f.State == needs.Missing
		}
		modules := offered()
		for module, here := range want {
			if (lacking[module] == "") != here {
				t.Errorf("missing needs of module %s = %q", module, lacking[module])
			}
			if missing[module] == here || slices.Contains(modules, module) != here {
				t.Errorf("%s: missing for the doctor: %t; a runner offers %v", module, missing[module], modules)
			}
		}
	}
	check(map[string]bool{"image": true, "volume": true, "machine": false, "container": false, "herodb": false})

	for name, version := range map[string]string{"redis-server": "Redis server v=7.0.15", "cloud-hypervisor": "cloud-hypervisor v53.0; it is not a hypervisor"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	check(map[string]bool{"herodb": true, "container": false})
	if testenv.Privileged() {
		check(map[string]bool{"network": true, "machine": true})
	}

	// An engine that exposes its secret is used only if it is named, and then no other engine is used.
	if err := os.Rename(filepath.Join(bin, "redis-server"), filepath.Join(bin, "hero_redis")); err != nil {
		t.Fatal(err)
	}
	check(map[string]bool{"herodb": false})
	if !strings.Contains(lacking["herodb"], "it shows its secret") {
		t.Errorf("without an engine that may serve, databases lack %q", lacking["herodb"])
	}
	config.Engines = []string{"hero_redis"}
	check(map[string]bool{"herodb": true})
	config.Engines = []string{"redis-server"}
	check(map[string]bool{"herodb": false})
	for wrong, want := range map[string]string{"postgres": "unknown engine", "hero_redis": "twice"} {
		config.Engines = []string{"hero_redis", wrong}
		_, doctor := HostNeeds(t.Context(), dir, config)
		_, runner := openDrivers(t.Context(), driverConfig{Choice: DriversHost, Dir: hostDir(dir), Host: config, Log: slog.New(slog.DiscardHandler)})
		for who, err := range map[string]error{"the doctor": doctor, "a runner": runner} {
			if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s with --engines hero_redis,%s: %v", who, wrong, err)
			}
		}
	}
}

func TestDiscoveryOfPeersIsSwitchedOff(t *testing.T) {
	for _, off := range []bool{false, true} {
		h := newHost(driverConfig{Choice: DriversHost, Host: HostConfig{OverlayNoDiscovery: off}, Log: slog.New(slog.DiscardHandler)}, t.TempDir())
		if h.overlay.NoDiscovery != off {
			t.Errorf("NoDiscovery = %t, want %t", off, h.overlay.NoDiscovery)
		}
	}
}

// An unusable peer is refused with a hint, before any process starts.
func TestAPeerOfNoUseIsRefusedBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	for _, peer := range []string{"quic://192.0.2.7:9651", "tls://192.0.2.7:9651", "tcp://[fe80::1%eth0]:9651"} {
		config := HostConfig{OverlayPeers: []string{peer}}
		_, doctor := HostNeeds(t.Context(), dir, config)
		_, runner := openDrivers(t.Context(), driverConfig{Choice: DriversHost, Dir: hostDir(dir), Host: config, Log: slog.New(slog.DiscardHandler)})
		for who, err := range map[string]error{"the doctor": doctor, "a runner": runner} {
			if e := writ.AsError(err); writ.CodeOf(err) != writ.CodeUsage || e.Hint == "" {
				t.Errorf("%s with the peer %s: %v", who, peer, err)
			}
		}
	}
}

// A runner maintains existing resources even if the host no longer meets the needs of their module. It creates
// containers again as soon as their daemon is available.
func TestRunnerMaintainsResourcesItCannotCreate(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, module := range []string{"machine", "herodb", "container"} {
		records := filepath.Join(hostDir(dir), module, "records")
		if err := os.MkdirAll(records, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(records, "one"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := HostConfig{Containerd: filepath.Join(dir, "none.sock"), ProcessUsers: noUsers, ContainerIDs: noUsers}
	opened, err := openDrivers(t.Context(), driverConfig{Choice: DriversHost, Dir: hostDir(dir), Host: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.close()
	for module, lacks := range map[string]bool{"machine": true, "herodb": true, "container": false} {
		has := slices.ContainsFunc(opened.all, func(d sal.Driver) bool { return d.Describe().Module == module })
		lacking := slices.ContainsFunc(opened.lacking, func(d writ.NodeDriver) bool { return d.Module == module && d.Lacks != "" })
		if !has || lacking != lacks {
			t.Errorf("%s: has a driver: %t, reports missing needs: %t", module, has, lacking)
		}
	}
}
