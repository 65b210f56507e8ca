package nodes

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/terminal"
)

func TestANodeShowsHowItsNetworksDo(t *testing.T) {
	n := writ.Node{Name: "n1", Findings: writ.Findings{Network: &writ.NodeNetwork{
		Denied: 8, Spoofed: 1, Ports: []writ.PortDrops{{Owner: "shop/container/web", Network: "front", Denied: 8, Spoofed: 1}},
		Overlay: &writ.Overlay{
			Address: "400:1::2", Subnet: "400:1::/64", Running: true, Connected: true, Detail: "1 of 30 peers alive, 1 routes", Version: "0.7.10", PID: 42,
			Since: time.Now().Add(-time.Hour), PeerCount: 30, Alive: 1, Sent: 3 << 20, Received: 700, Selected: 1,
			Peers:  []writ.OverlayPeer{{Endpoint: "tcp://192.0.2.7:9651", Type: "static", State: "alive", Sent: 3 << 20, Received: 700}},
			Routes: []writ.OverlayRoute{{Subnet: "400:2::/64", NextHop: "TCP a <-> b", Metric: -1}},
		},
	}}}
	text := nodeText(n, why.Step{})
	for _, want := range []string{
		"  overlay: 400:1::2 in 400:1::/64; 1 of 30 peers alive, 1 routes\n",
		"    mycelium 0.7.10, process 42, for 1h; 3.0 MiB sent to peers, 700 B received\n",
		"    peer tcp://192.0.2.7:9651, static, alive; 3.0 MiB sent, 700 B received\n    and 29 more peers\n",
		"    route 400:2::/64 via TCP a <-> b, unreachable\n",
		"  dropped at its ports: 8 packets not allowed in, 1 packet under a false address\n    shop/container/web on front: 8 not allowed in, 1 under a false address\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	n.Network = nil
	if text := nodeText(n, why.Step{}); strings.Contains(text, "overlay") || strings.Contains(text, "dropped") {
		t.Errorf("text of a node without networks:\n%s", text)
	}
}

func TestNodeShowsItsDisks(t *testing.T) {
	t.Parallel()
	n := writ.Node{Name: "n1", Findings: writ.Findings{Disks: []writ.Disk{{Path: "/var/lib/writ", Bytes: 40 << 30, Free: 2 << 30}, {Path: "/srv", Bytes: 100 << 30, Free: 1 << 30}}}}
	const want = "  disk /var/lib/writ has 2.0 of 40.0 GiB free\n  disk /srv has 1.0 of 100.0 GiB free: it is almost full, and writes to it may fail soon\n"
	if text := nodeText(n, why.Step{}); !strings.Contains(text, want) {
		t.Errorf("node show lacks %q:\n%s", want, text)
	}
	for fault, n := range map[string]writ.Node{
		"a disk is almost full": n, "": {Findings: writ.Findings{Disks: n.Disks[:1]}}, "2 stuck": {Findings: writ.Findings{Disks: n.Disks}, Health: writ.Health{Stuck: make([]writ.Stuck, 2)}}, "takes nothing": {Findings: writ.Findings{Disks: n.Disks}, Health: writ.Health{Fault: "takes nothing"}},
	} {
		if got := faultOf(n); got != fault {
			t.Errorf("node list has the fault %q, want %q", got, fault)
		}
	}
}

func TestANodeShowsWhichEnginesItDoesNotUse(t *testing.T) {
	text := nodeText(writ.Node{Name: "n1", Health: writ.Health{Drivers: []writ.NodeDriver{{Module: "herodb", Name: "engines", Detail: "redis-server 7.0.15; memory is bounded", Engines: []writ.Engine{
		{Name: "redis-server", Version: "7.0.15"}, {Name: "hero_redis", Version: "unknown", Refused: "it shows its secret"},
	}}}}}, why.Step{})
	if want := "  herodb=engines  redis-server 7.0.15; memory is bounded\n    not used: hero_redis unknown, it shows its secret\n"; !strings.Contains(text, want) {
		t.Errorf("text lacks %q:\n%s", want, text)
	}
}

func TestNodeShowsItsPartsForContainers(t *testing.T) {
	about := []writ.NodeDriver{{Module: "container", Name: "containerd", Init: true}}
	text := nodeText(writ.Node{Name: "n1", Health: writ.Health{Drivers: about}}, why.Step{})
	if want := "  containers can have an init process\n"; !strings.Contains(text, want) {
		t.Errorf("it does not say %q:\n%s", want, text)
	}
	about[0].Init = false
	if text := nodeText(writ.Node{Name: "n1", Health: writ.Health{Drivers: about}}, why.Step{}); strings.Contains(text, "init") {
		t.Errorf("without an init program:\n%s", text)
	}
}

func TestDamagedRecordIsReportedWithARemedy(t *testing.T) {
	text := nodeText(writ.Node{Name: "n1", Liveness: writ.LivenessReady, LastBeat: time.Now(), Findings: writ.Findings{Orphans: []writ.Orphan{
		{Module: "volume", Kind: writ.OrphanDamaged, Name: "/data/records/vx.json"}, {Module: "network", Kind: "tap", Name: "p1-0"},
	}}}, why.Step{})
	for _, want := range []string{
		"  damaged record: /data/records/vx.json (of volume); delete its resource and create it again", "  orphan: the tap p1-0 belongs to no resource", "last heard from just now\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
}

// aHost returns the report of a machine that was started from an image.
func aHost() *writ.Host {
	return &writ.Host{
		OS: "writ node", Image: "0a1b2c3d4e5f6071", Kernel: "6.1.0-56-amd64", Vendor: "Supermicro", Product: "AS -1114S", Serial: "S1", CPU: "AMD EPYC 7302P", MemoryMiB: 131072,
		Booted: time.Now().Add(-3 * time.Hour),
		Disks: []writ.HostDisk{
			{Name: "nvme0n1", Bytes: 960197124096, Model: "MZQL2", Serial: "S64F", Parts: []writ.HostPart{
				{Name: "nvme0n1p1", Bytes: 100 << 20, Label: "EFI", Mounted: "/efi"}, {Name: "nvme0n1p2", Bytes: 800 << 30},
			}},
			{Name: "sda", Bytes: 4000787030016, Model: "ST4000\x1b[2J", Rotational: true, Parts: []writ.HostPart{{Name: "sda", Bytes: 4000787030016, Label: "writ-data", Mounted: "/var/lib/writ"}}},
		},
		NICs: []writ.HostNIC{
			{Name: "eth0", MAC: "3c:ec:ef:00:00:01", Driver: "ixgbe", SpeedMbit: 10000, Carrier: true, Addresses: []string{"10.77.0.4/24", "fd77::4/64"}}, {Name: "eth1", SpeedMbit: 100},
		},
	}
}

func TestNodeShowsItsMachine(t *testing.T) {
	n := writ.Node{Name: "n1", Health: writ.Health{Version: "v1.0.0"}, Liveness: writ.LivenessReady, LastBeat: time.Now(), HostFacts: writ.HostFacts{Boot: "5d0c", Restarts: 2, Host: aHost(),
		Online: []writ.Online{{Month: "2026-10", Seconds: 5, Of: 10}, {Month: "2026-11", Seconds: 999_999, Of: 1_000_000}}}}
	text := nodeText(n, why.Step{})
	for _, want := range []string{
		"version v1.0.0\n", "  machine: up for 3h, 2 restarts seen; boot id 5d0c\n  online: 99.99 % of 2026-11\n    writ node, image 0a1b2c3d4e5f6071, kernel 6.1.0-56-amd64\n",
		"    Supermicro AS -1114S, serial S1, AMD EPYC 7302P, 131072 MiB of memory, 2 disks, 2 network cards\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("text lacks %q:\n%s", want, text)
		}
	}
	n.Liveness = writ.LivenessLost
	if text := nodeText(n, why.Step{}); !strings.Contains(text, "  machine: 2 restarts seen; boot id 5d0c\n") {
		t.Errorf("text of a lost machine:\n%s", text)
	}
	n.Host, n.Boot = nil, ""
	if text := nodeText(n, why.Step{}); strings.Contains(text, "machine:") {
		t.Errorf("text of a node of an earlier version:\n%s", text)
	}
}

// A node keeps the key with which it joined, so the key is as old as the membership.
func TestTheAgeOfTheKeyOfANodeIsShown(t *testing.T) {
	n := writ.Node{Name: "n1", Key: "SHA256:abc", Joined: time.Now().Add(-100 * 24 * time.Hour)}
	if want, text := "  its key is in use since "+n.Joined.UTC().Format("2006-01-02")+" (100d); a node's key does not expire\n", nodeText(n, why.Step{}); !strings.Contains(text, want) {
		t.Errorf("text lacks %q:\n%s", want, text)
	}
	var out bytes.Buffer
	if err := (&terminal.Terminal{Out: &out, Format: terminal.Wide}).Print(nodeTable([]writ.Node{n}, nil)); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "KEY AGE") || !strings.Contains(text, "100d") {
		t.Errorf("the list has no age of its key:\n%s", text)
	}
	if text := nodeText(writ.Node{Name: "n1"}, why.Step{}); strings.Contains(text, "its key") {
		t.Errorf("text of a node without a join time:\n%s", text)
	}
}

func TestDisksAndNetworkCardsOfANodeAreListed(t *testing.T) {
	for want, view := range map[string]terminal.View{
		`DISK         SIZE       ROTATES  MODEL       SERIAL  LABEL      MOUNTED
nvme0n1      894.3 GiB  no       MZQL2       S64F    -          -
  nvme0n1p1  100.0 MiB  -        -           -       EFI        /efi
  nvme0n1p2  800.0 GiB  -        -           -       -          -
sda          3.6 TiB    yes      ST4000�[2J  -       writ-data  /var/lib/writ
`: DiskTable(aHost().Disks),
		`CARD  MAC                DRIVER  CARRIER  SPEED       ADDRESSES
eth0  3c:ec:ef:00:00:01  ixgbe   yes      10 Gbit/s   10.77.0.4/24 fd77::4/64
eth1  -                  -       no       100 Mbit/s  -
`: NicTable(aHost().NICs),
	} {
		var out bytes.Buffer
		if err := (&terminal.Terminal{Out: &out, Format: terminal.Table}).Print(view); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want {
			t.Errorf("it shows\n%s\nwant\n%s", got, want)
		}
	}
}
