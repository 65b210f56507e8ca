package cloudhypervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/needs"
)

// write writes an image as a driver does and returns its path.
func write(t *testing.T, files ...file) string {
	t.Helper()
	image, err := fatImage("CIDATA", files)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image")
	if err := writeImage(path, image); err != nil {
		t.Fatal(err)
	}
	return path
}

var fatFiles = []file{
	{"meta-data", []byte("short")},
	{"user-data", bytes.Repeat([]byte("0123456789abcdef"), 10_000)},
	// Name and content end exactly at the end of an entry and a cluster.
	{"network-config", bytes.Repeat([]byte{'x'}, clusterBytes)},
	{"vendor-data-1", nil},
}

func TestFileSystemIsWithoutFaults(t *testing.T) {
	fsck := testenv.Need(t, "fsck.vfat")
	for _, files := range [][]file{nil, fatFiles} {
		if said, err := exec.Command(fsck, "-n", "-v", write(t, files...)).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	}
}

func TestFileSystemHoldsItsFiles(t *testing.T) {
	mtype := testenv.Need(t, "mtype")
	path := write(t, fatFiles...)
	for _, f := range fatFiles {
		cmd := exec.Command(mtype, "-i", path, "::"+f.name)
		cmd.Env = append(os.Environ(), "MTOOLS_SKIP_CHECK=0")
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, f.data) {
			t.Errorf("%s has %d bytes, %v; want %d", f.name, len(got), err, len(f.data))
		}
	}
	listed, err := exec.Command(mtype[:len(mtype)-len("mtype")]+"mdir", "-i", path, "-b").Output()
	if want := "::/meta-data\n::/user-data\n::/network-config\n::/vendor-data-1\n"; err != nil || string(listed) != want {
		t.Errorf("it lists %q, %v", listed, err)
	}
}

func TestFileSystemIsSmallOnDiskAndClosed(t *testing.T) {
	info, err := os.Stat(write(t, fatFiles[0]))
	if err != nil || info.Size() != seedSize || diskspace.Occupied(info) > 128<<10 || info.Mode().Perm() != 0o600 {
		t.Errorf("it is %v, %d bytes, %v", info.Mode(), info.Size(), err)
	}
}

func TestFileSystemRefusesOversizedContent(t *testing.T) {
	if _, err := fatImage("CIDATA", []file{{"user-data", make([]byte, seedSize)}}); err == nil {
		t.Error("it takes as much as the disk has")
	}
	if _, err := fatImage("CIDATA", []file{{"user-data", make([]byte, clusters*clusterBytes)}}); err != nil {
		t.Error(err)
	}
	if _, err := fatImage("CIDATA", make([]file, rootEntries)); err == nil {
		t.Error("it takes any number of files")
	}
}

// twoPorts are the ports of a machine on two networks, both with IPv4.
var twoPorts = []sal.Port{
	{
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, MTU: 1400,
		IPv6: netip.MustParsePrefix("400:1::2/96"), Gateway: netip.MustParseAddr("400:1::1"),
		IPv4: netip.MustParsePrefix("10.0.0.2/24"), Router: netip.MustParseAddr("10.0.0.1"),
		Nameservers: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("400:3::53")},
	},
	{
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, MTU: 1400,
		IPv6: netip.MustParsePrefix("400:2::2/96"), Gateway: netip.MustParseAddr("400:2::1"),
		IPv4: netip.MustParsePrefix("10.1.0.2/24"), Router: netip.MustParseAddr("10.1.0.1"),
	},
}

func TestInterfacesAreFoundByTheirHardwareAddress(t *testing.T) {
	got := networkConfig(twoPorts, false)
	want := `{"ethernets":{"net0":{"accept-ra":false,"addresses":["400:1::2/96","10.0.0.2/24"],"dhcp4":false,"dhcp6":false,` +
		`"match":{"macaddress":"02:00:00:00:00:01"},"mtu":1400,"nameservers":{"addresses":["192.0.2.53","400:3::53"]},"routes":[{"to":"400::/7","via":"400:1::1"},{"to":"0.0.0.0/0","via":"10.0.0.1"},` +
		`{"to":"0.0.0.0/1","via":"10.0.0.1"},{"to":"128.0.0.0/1","via":"10.0.0.1"}]},` +
		`"net1":{"accept-ra":false,"addresses":["400:2::2/96","10.1.0.2/24"],"dhcp4":false,"dhcp6":false,` +
		`"match":{"macaddress":"02:00:00:00:00:02"},"mtu":1400,"routes":[{"table":1025,"to":"400::/6","via":"400:2::1"},` +
		`{"table":1025,"to":"0.0.0.0/0","via":"10.1.0.1"}],` +
		`"routing-policy":[{"from":"400:2::2/128","priority":30002,"table":254,"to":"400:2::/96"},{"from":"400:2::2/128","priority":30003,"table":1025},` +
		`{"from":"10.1.0.2/32","priority":30002,"table":254,"to":"10.1.0.0/24"},{"from":"10.1.0.2/32","priority":30003,"table":1025}]}},` +
		`"version":2}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// The nameservers are in the cloud-init disk, unless the script sets its own.
func TestAMachineGetsTheNameserversOfItsNetworks(t *testing.T) {
	nets := networks(t)
	if nets == nil {
		t.Skip("only root makes taps")
	}
	b := newFixture(t)
	b.Networks.(*others).nameservers = []netip.Addr{netip.MustParseAddr("192.0.2.53")}
	for name, c := range map[string]struct {
		cloudInit string
		told      bool
	}{
		"nothing": {"", true},
		"other":   {"#cloud-config\nwrite_files:\n- content: |\n    resolv_conf: of another\n  path: /x\n", true},
		"own":     {"#cloud-config\nmanage_resolv_conf: true\nresolv_conf:\n  nameservers: [198.51.100.53]\n", false},
		"nobody":  {"#cloud-config\nmanage_resolv_conf: false\n", false},
	} {
		spec := with(machineSpec, "networks", nets, "env", map[string]any{"A": "b"})
		if c.cloudInit != "" {
			spec["cloud_init"] = c.cloudInit
		}
		b.must("machine.create", name, spec)
		seed, err := os.ReadFile(filepath.Join(b.dirOf(machine(name)), seedName))
		if err != nil {
			t.Fatal(err)
		}
		if told := bytes.Contains(seed, []byte(`"nameservers":{"addresses":["192.0.2.53"]}`)); told != c.told {
			t.Errorf("%q: seed has nameservers: %t", c.cloudInit, told)
		}
		b.must("machine.delete", name, nil)
	}
	b.empty()
}

// A namespace represents the guest, configured as by netplan. Each of its interfaces leads to a router that drops
// packets with a false source address, as networks do.
//
// Promise: Volumes and images: A guest answers a packet on the network on which it arrived.
// How: A routing table per interface, with rules, in the cloud-init data for netplan.
func TestAnInterfaceAnswersItsOwnTraffic(t *testing.T) {
	ip, nft, ping := testenv.Need(t, "ip"), testenv.Need(t, "nft"), testenv.Need(t, "ping")
	guest, router := testenv.Netns(t), testenv.Netns(t)
	sh := func(ns, line string) {
		t.Helper()
		testenv.InNetns(t, ns, func() error {
			if said, err := exec.Command("sh", "-ec", line).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, said)
			}
			return nil
		})
	}
	const quiet = "echo 0 | tee /proc/sys/net/ipv6/conf/all/accept_dad /proc/sys/net/ipv6/conf/default/accept_dad >/dev/null; "
	var ports []sal.Port
	sh(guest, quiet+ip+" link set lo up")
	sh(router, quiet+ip+" link set lo up; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; "+ip+" address add 500::1/128 dev lo; "+
		nft+" add table ip6 spoof; "+nft+" add chain ip6 spoof in '{ type filter hook prerouting priority 0; }'; "+
		ip+" address add 198.51.100.1/32 dev lo; "+
		nft+" add table ip spoof; "+nft+" add chain ip spoof in '{ type filter hook prerouting priority 0; }'")
	for i, mac := range []string{"02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"} {
		n := fmt.Sprint(i + 1)
		hardware, err := net.ParseMAC(mac)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, sal.Port{
			MAC: hardware, IPv6: netip.MustParsePrefix("400:" + n + "::2/96"), Gateway: netip.MustParseAddr("400:" + n + "::1"),
			IPv4: netip.MustParsePrefix("10." + n + ".0.2/24"), Router: netip.MustParseAddr("10." + n + ".0.1"),
		})
		sh(router, ip+" link add r"+n+" type veth peer name net"+fmt.Sprint(i)+" netns "+guest+" address "+mac+"; "+ip+" address add 400:"+n+"::1/96 dev r"+n+
			" nodad; "+ip+" address add 400:"+n+"::3/96 dev r"+n+" nodad; "+ip+" link set r"+n+" up; "+
			nft+" add rule ip6 spoof in iifname r"+n+" ip6 saddr != { 400:"+n+"::2, fe80::/10 } drop; "+
			ip+" address add 10."+n+".0.1/24 dev r"+n+"; "+ip+" address add 10."+n+".0.3/24 dev r"+n+"; "+
			nft+" add rule ip spoof in iifname r"+n+" ip saddr != 10."+n+".0.2 drop")
	}
	sh(guest, asNetplan(t, ip, networkConfig(ports, false)))
	for _, port := range ports {
		to := port.IPv6.Addr().String()
		// From outside the range of the port, where the main table leads to the first interface.
		sh(router, ping+" -6 -c 1 -w 20 -I 500::1 "+to)
		sh(router, ping+" -6 -c 1 -w 20 -I "+port.Gateway.Next().Next().String()+" "+to)
		to = port.IPv4.Addr().String()
		sh(router, ping+" -c 1 -w 20 -I 198.51.100.1 "+to)
		sh(router, ping+" -c 1 -w 20 -I "+port.Router.Next().Next().String()+" "+to)
	}
}

// asNetplan returns the ip commands for a configuration.
func asNetplan(t *testing.T, ip string, config []byte) string {
	t.Helper()
	var c struct {
		Ethernets map[string]struct {
			Addresses []string
			Routes    []struct {
				To, Via string
				Table   int
			}
			Policy []struct {
				From, To        string
				Table, Priority int
			} `json:"routing-policy"`
		}
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for name, e := range c.Ethernets {
		fmt.Fprintf(&lines, "%s link set %s up\n", ip, name)
		for _, a := range e.Addresses {
			nodad := ""
			if strings.Contains(a, ":") {
				nodad = "nodad"
			}
			fmt.Fprintf(&lines, "%s address add %s dev %s %s\n", ip, a, name, nodad)
		}
		for _, r := range e.Routes {
			// 0 is the main table.
			fmt.Fprintf(&lines, "%s route add %s via %s dev %s table %d\n", ip, r.To, r.Via, name, r.Table)
		}
		for _, r := range e.Policy {
			if r.To == "" {
				r.To = "all"
			}
			family := "-4"
			if strings.Contains(r.From, ":") {
				family = "-6"
			}
			fmt.Fprintf(&lines, "%s %s rule add from %s to %s table %d priority %d\n", ip, family, r.From, r.To, r.Table, r.Priority)
		}
	}
	return lines.String()
}

func TestMetaDataNamesTheMachineAndItsKeys(t *testing.T) {
	r := &sal.Record[own]{Resource: machine("web"), UID: "u1"}
	got := string(metaData(&catalog.MachineCreate{SSHKeys: []string{"ssh-ed25519 A a@b"}}, r))
	if want := `{"instance-id":"u1","local-hostname":"web","public-keys":["ssh-ed25519 A a@b"]}` + "\n"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestOversizedUserDataIsRefused(t *testing.T) {
	b := newFixture(t)
	var keys []any
	for range 26 {
		keys = append(keys, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDwUdFwEreDQth3W4mW2Geh6e6VeXP7uCWMqkv6hr3DV "+strings.Repeat("x", 400<<10))
	}
	o, err := b.do("machine.create", "web", with(machineSpec, "ssh_keys", keys))
	if writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("%v, %v", o, err)
	}
	b.empty()
}

// A program without a hypervisor needs no KVM.
//
// Promise: Volumes and images: A node without KVM gets no machines; `writ doctor`, `writ node show` and placement
// report the missing feature.
// How: writ checks before it offers the driver; each beat lists missing features; existing machines can be stopped
// and deleted.
// Also: TestRunnerOffersModulesThatTheDoctorAccepts, TestChooseTakesTheBestNodeAndExplainsOthers,
// TestDegradedNodeGetsNoNewWork, TestRunnerMaintainsResourcesItCannotCreate,
// TestMissingToolsAreReportedOncePerModule.
func TestWithoutKVMThereAreNoMachines(t *testing.T) {
	b := newFixture(t)
	look := func() error {
		t.Helper()
		return needs.Refusal(needs.Examine(t.Context(), "machine", b.Needs()))
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	b.kvm = filepath.Join(b.host, "none")
	if err := look(); err != nil {
		t.Errorf("a stub needs KVM: %v", err)
	}
	b.Program = filepath.Join(b.host, "cloud-hypervisor")
	if err := os.WriteFile(b.Program, []byte("#!/bin/sh\necho cloud-hypervisor v53.0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := look(); writ.CodeOf(err) != writ.CodeDriverMissing || !strings.Contains(err.Error(), "KVM: open "+b.kvm) {
		t.Errorf("machines are offered: %v", err)
	}
	b.mshv = b.Program // any existing file
	if err := look(); writ.CodeOf(err) != writ.CodeDriverMissing || !strings.Contains(err.Error(), "Microsoft's hypervisor (/dev/mshv), which writ does not support") {
		t.Errorf("with another hypervisor: %v", err)
	}
}

// The runner itself can open the device. The error has the command that helps.
//
// Promise: Machines and the overlay: A host whose `/dev/kvm` belongs to root alone offers no machines with their own
// users and prints the mending command.
// How: The check reads the device's mode and group as the process would see them.
// Also: TestGuestsOfOthersNeedMoreThanRootsKVM.
func TestRootOnlyKVMIsUnusableForAccounts(t *testing.T) {
	b := newFixture(t)
	b.needUsers()
	b.Program = filepath.Join(b.host, "cloud-hypervisor")
	b.kvm = filepath.Join(b.host, "kvm")
	if err := errors.Join(os.WriteFile(b.Program, []byte("#!/bin/sh\necho cloud-hypervisor v53.0\n"), 0o700), os.WriteFile(b.kvm, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, f := range needs.Examine(t.Context(), "machine", b.Needs()) {
		if f.Need == "KVM" && (f.State != needs.Missing || !strings.Contains(f.Detail, "only root's group may open "+b.kvm) || !strings.Contains(f.Fix, "chgrp kvm "+b.kvm)) {
			t.Errorf("it says: %+v", f)
		}
	}
	if err := os.Chmod(b.kvm, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, f := range needs.Examine(t.Context(), "machine", b.Needs()) {
		if f.Need == "KVM" && f.State != needs.OK {
			t.Errorf("a device with open permissions: %+v", f)
		}
	}
}
