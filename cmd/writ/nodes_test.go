package main

import (
	"strings"
	"testing"
	"time"

	"writ"
)

func TestANodeShowsHowItsNetworksDo(t *testing.T) {
	n := writ.Node{Name: "n1", Network: &writ.NodeNetwork{
		Denied: 8, Spoofed: 1, Ports: []writ.PortDrops{{Owner: "shop/container/web", Network: "front", Denied: 8, Spoofed: 1}},
		Overlay: &writ.Overlay{
			Address: "400:1::2", Subnet: "400:1::/64", Running: true, Connected: true, Detail: "1 of 30 peers alive, 1 routes", Version: "0.7.10", PID: 42,
			Since: time.Now().Add(-time.Hour), PeerCount: 30, Alive: 1, Sent: 3 << 20, Received: 700, Selected: 1,
			Peers:  []writ.OverlayPeer{{Endpoint: "tcp://192.0.2.7:9651", Type: "static", State: "alive", Sent: 3 << 20, Received: 700}},
			Routes: []writ.OverlayRoute{{Subnet: "400:2::/64", NextHop: "TCP a <-> b", Metric: -1}},
		},
	}}
	text := nodeText(n)
	for _, want := range []string{
		"  overlay: 400:1::2 in 400:1::/64; 1 of 30 peers alive, 1 routes\n",
		"    mycelium 0.7.10, process 42, for 1h; 3.0 MiB sent to peers, 700 B received\n",
		"    peer tcp://192.0.2.7:9651, static, alive; 3.0 MiB sent, 700 B received\n    and 29 more peers\n",
		"    route 400:2::/64 via TCP a <-> b, no way any more\n",
		"  dropped at its ports: 8 packets not allowed in, 1 packet under a false address\n    shop/container/web on front: 8 not allowed in, 1 under a false address\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	n.Network = nil
	if text := nodeText(n); strings.Contains(text, "overlay") || strings.Contains(text, "dropped") {
		t.Errorf("of a node without networks it says:\n%s", text)
	}
}

func TestANodeShowsWhichEnginesItDoesNotUse(t *testing.T) {
	text := nodeText(writ.Node{Name: "n1", Drivers: []writ.NodeDriver{{Module: "herodb", Name: "engines", Detail: "redis-server 7.0.15; memory is bounded", Engines: []writ.Engine{
		{Name: "redis-server", Version: "7.0.15"}, {Name: "hero_redis", Version: "unknown", Refused: "it shows its secret"},
	}}}})
	if want := "  herodb=engines  redis-server 7.0.15; memory is bounded\n    not used: hero_redis unknown, it shows its secret\n"; !strings.Contains(text, want) {
		t.Errorf("it does not say %q:\n%s", want, text)
	}
}

func TestANodeSaysWhatToDoAboutADamagedRecord(t *testing.T) {
	text := nodeText(writ.Node{Name: "n1", Liveness: writ.LivenessReady, LastBeat: time.Now(), Orphans: []writ.Orphan{
		{Module: "volume", Kind: writ.OrphanDamaged, Name: "/data/records/vx.json"}, {Module: "network", Kind: "tap", Name: "p1-0"},
	}})
	for _, want := range []string{
		"  damaged record: /data/records/vx.json (of volume); delete what it is of", "  orphan: the tap p1-0 belongs to no resource", "last heard of just now\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}
