package netdev

import (
	"net/netip"
	"strings"
	"testing"

	"writ"
	"writ/sal/saltest"
)

func TestSamplesAreTheEndsAndTheMiddle(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"10.1.2.0/24": "10.1.2.0 10.1.2.128 10.1.2.255", "10.0.0.0/8": "10.0.0.0 10.128.0.0 10.255.255.255", "192.168.1.4/30": "192.168.1.4 192.168.1.6 192.168.1.7",
	} {
		var got []string
		for _, a := range samples(netip.MustParsePrefix(prefix)) {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", prefix, got, want)
		}
	}
}

// uplinks gives a node two interfaces to other hosts.
func uplinks(t *testing.T, netns string) func(line string) {
	t.Helper()
	ip := func(line string) {
		t.Helper()
		run(t, netns, append([]string{"ip"}, strings.Fields(line)...)...)
	}
	for _, name := range []string{"left", "right"} {
		ip("link add " + name + " type veth peer name " + name + "-peer")
		ip("link set " + name + " up")
		ip("link set " + name + "-peer up")
	}
	ip("address add 192.0.2.10/24 dev left")
	ip("address add 198.51.100.10/24 dev right")
	ip("route add default via 192.0.2.1")
	return ip
}

func TestRangesOfOtherRoutesAreRefused(t *testing.T) {
	t.Parallel()
	x := front(t)
	ip := uplinks(t, x.Netns)
	for _, line := range []string{
		"route add 10.20.0.0/16 via 192.0.2.1",
		"route add 10.21.0.0/16 nexthop via 192.0.2.1 nexthop via 198.51.100.1",
		"nexthop add id 1 via 192.0.2.1 dev left",
		"nexthop add id 2 via 198.51.100.1 dev right",
		"nexthop add id 3 group 1/2",
		"route add 10.22.0.0/16 nhid 3",
		"route add 10.23.0.0/16 via 192.0.2.1 table 600",
		"rule add priority 100 to 10.23.0.0/16 lookup 600",
		"route add default via 198.51.100.1 table 601",
		"rule add priority 101 to 10.24.0.0/16 lookup 601",
		"route add blackhole 10.25.0.0/16",
		"route add unreachable 10.26.0.0/16",
		"route add prohibit 10.27.0.0/16",
		"rule add priority 102 to 10.28.0.0/16 blackhole",
		"route add local 10.29.0.0/16 dev lo",
		"route add 10.30.0.5/32 dev right",
		"rule add priority 103 to 10.40.0.0/16 lookup main",
		"route add 10.41.0.0/16 via 192.0.2.1 table 602", // of a VRF: no rule uses the table
		"route add 0.0.0.0/1 via 198.51.100.1",           // as VPNs replace the default route
	} {
		ip(line)
	}
	for third := range 11 {
		taken := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(20 + third), 0, 0}), 24).String()
		_, err := x.do("network.create", "back", map[string]any{"ipv4": taken})
		if writ.CodeOf(err) != writ.CodeResourceConflict {
			t.Errorf("%s: %v", taken, err)
		}
	}
	for name, free := range map[string]string{"back": "10.40.0.0/24", "side": "10.41.0.0/24"} {
		x.must("network.create", name, map[string]any{"ipv4": free})
	}
}

func TestLaterRoutesAreReportedAsDrift(t *testing.T) {
	t.Parallel()
	x := front(t)
	ip := uplinks(t, x.Netns)
	x.must("network.create", "back", map[string]any{"ipv4": "10.50.1.0/24"})
	network := saltest.Resource(writ.KindNetwork, "back")
	if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
		t.Errorf("a network as it should be: %+v, %v", drift, err)
	}
	ip("route add 10.50.0.0/16 nexthop via 192.0.2.1 nexthop via 198.51.100.1")
	drift, err := x.Keep(t.Context(), network)
	want := "its range 10.50.1.0/24 overlaps with 10.50.0.0/16, which is behind left and right on this node"
	if err != nil || len(drift) != 1 || drift[0].Mended || drift[0].What != want {
		t.Errorf("drift with a later route = %+v, %v", drift, err)
	}
	ip("route del 10.50.0.0/16")
	if drift, err := x.Keep(t.Context(), network); err != nil || len(drift) > 0 {
		t.Errorf("the route is gone: %+v, %v", drift, err)
	}
}
