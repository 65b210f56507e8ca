package netdev

import (
	"os"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// settings are changes of a host. early ones can be made before a network exists; web is nil then.
var settings = map[string]struct {
	early  bool
	change func(h *routedHost, web *guest)
}{
	"strict reverse path filter": {true, func(h *routedHost, _ *guest) {
		for _, of := range []string{"all", "default", "uplink"} {
			h.set(h.Netns, "ipv4/conf/"+of+"/rp_filter", "1")
		}
	}},
	"no IPv6": {true, func(h *routedHost, _ *guest) { h.set(h.Netns, "ipv6/conf/all/disable_ipv6", "1") }},
	"narrow uplink": {true, func(h *routedHost, _ *guest) {
		h.ip("link set uplink mtu 1000")
		run(h, h.router, "ip", "link", "set", "lan", "mtu", "1000")
	}},
	"no forwarding on new interfaces": {true, func(h *routedHost, _ *guest) {
		h.set(h.Netns, "ipv4/ip_forward", "1")
		h.set(h.Netns, "ipv4/conf/default/forwarding", "0")
	}},
	"narrow bridge": {false, func(h *routedHost, web *guest) {
		h.ip("link set " + saltest.Resource(writ.KindNetwork, "front").HostName() + " mtu 1000")
	}},
	"narrow port":        {false, func(h *routedHost, web *guest) { h.ip("link set " + device(web.owner.UID, port{}) + " mtu 1000") }},
	"narrow guest":       {false, func(h *routedHost, web *guest) { run(h, web.netns, "ip", "link", "set", "eth0", "mtu", "1000") }},
	"guest without IPv6": {false, func(h *routedHost, web *guest) { h.set(web.netns, "ipv6/conf/all/disable_ipv6", "1") }},
	"VRF": {true, func(h *routedHost, _ *guest) {
		h.addVRF()
		h.ip("link add side type veth peer name side-peer")
		h.ip("link set side master blue up")
		h.ip("link set side-peer up")
		h.ip("address add 198.51.100.1/24 dev side")
		h.ip("route add default via 198.51.100.2 table 10")
		h.ip("route add 10.77.0.0/16 via 198.51.100.2 table 10")
	}},
	"bridge in a VRF": {false, func(h *routedHost, _ *guest) {
		h.addVRF()
		h.ip("link set " + saltest.Resource(writ.KindNetwork, "front").HostName() + " master blue")
	}},
}

// TestNetworkWorksUnderHostSettings changes a host before or after it has a network. After one check, the network
// works, and the next check finds no difference. A deletion leaves no traces.
//
// Promise: Networks and containers: A network works on a host with VRFs, a strict reverse path filter, a narrow uplink,
// or IPv6 or forwarding disabled by default.
// How: Every check sets MTU, IPv6 and forwarding of the bridge, before its addresses.
func TestNetworkWorksUnderHostSettings(t *testing.T) {
	t.Parallel()
	for name, tt := range settings {
		if tt.early {
			t.Run(name+" before", func(t *testing.T) {
				t.Parallel()
				h := newRoutedHost(t)
				h.TB = t
				tt.change(h, nil)
				h.works(h.populate())
			})
		}
		t.Run(name+" after", func(t *testing.T) {
			t.Parallel()
			h := newRoutedHost(t)
			web, db := h.populate()
			tt.change(h, web)
			for _, d := range h.keep() {
				if !d.Mended {
					t.Errorf("not repaired: %s", d.What)
				}
			}
			h.works(web, db)
		})
	}
}

// routedHost is a host with an uplink to a router.
type routedHost struct {
	*fixture
	router string // its namespace
	before []string
}

func newRoutedHost(t *testing.T) *routedHost {
	t.Helper()
	h := &routedHost{fixture: newFixture(t, subnetA), router: testenv.Netns(t)}
	h.ip("link add uplink type veth peer name lan netns " + h.router)
	h.ip("link set uplink up")
	h.ip("address add 192.0.2.1/24 dev uplink")
	h.ip("route add default via 192.0.2.2")
	run(t, h.router, "ip", "link", "set", "lan", "up")
	run(t, h.router, "ip", "address", "add", "192.0.2.2/24", "dev", "lan")
	return h
}

func (h *routedHost) ip(line string) {
	h.Helper()
	run(h, h.Netns, append([]string{"ip"}, strings.Fields(line)...)...)
}

// addVRF adds the VRF blue with table 10.
func (h *routedHost) addVRF() {
	h.Helper()
	if said, err := try(h, h.Netns, "ip", "link", "add", "name", "blue", "type", "vrf", "table", "10"); err != nil {
		h.Skip("this kernel has no VRFs: " + said)
	}
	h.ip("link set blue up")
}

// set changes a kernel setting of a namespace.
func (h *routedHost) set(netns, setting, value string) {
	h.Helper()
	testenv.InNetns(h, netns, func() error { return os.WriteFile("/proc/sys/net/"+setting, []byte(value), 0o644) })
}

// populate creates a network with two guests.
func (h *routedHost) populate() (web, db *guest) {
	h.Helper()
	h.before = h.traces()
	h.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/29"})
	return h.guest("web", "front"), h.guest("db", "front")
}

// keep checks and repairs the network.
func (h *routedHost) keep() (drift []sal.Drift) {
	h.Helper()
	drift, err := h.Keep(h.Context(), saltest.Resource(writ.KindNetwork, "front"))
	if err != nil {
		h.Fatalf("repair: %v", err)
	}
	return drift
}

// works checks that the network needs no repair, that it carries packets, and that it can be deleted.
func (h *routedHost) works(web, db *guest) {
	h.Helper()
	if drift := h.keep(); len(drift) > 0 {
		h.Errorf("a check finds %+v", drift)
	}
	for what, to := range map[string]string{
		"guest": db.address(), "gateway": web.ports[0].Gateway.String(), "router": "192.0.2.2",
	} {
		if !web.reaches(to, "-s", "1200") {
			h.Errorf("the %s does not answer", what)
		}
	}
	for _, g := range []*guest{web, db} {
		if err := h.Release(h.Context(), g.owner); err != nil {
			h.Error(err)
		}
	}
	h.must("network.delete", "front", nil)
	for _, trace := range h.traces() {
		if strings.Contains(trace, "10.77.") || strings.Contains(trace, "ff0f") || strings.Contains(trace, `"writ `) {
			h.Errorf("a deletion leaves %s", trace)
		}
	}
}
