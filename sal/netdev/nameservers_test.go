//go:build linux

package netdev

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ/sal/needs"
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestHostNameserversAreRead(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "resolv.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub := write("# this file is managed\nnameserver 127.0.0.53\noptions edns0\nsearch example.org\n")
	for text, want := range map[string][]netip.Addr{
		"nameserver 192.0.2.53\n;nameserver 192.0.2.1\nnameserver\t400:1::53 # the other\nnameserver no.address": addresses("192.0.2.53", "400:1::53"),
		"nameserver ::1\nnameserver ::ffff:192.0.2.53\nnameserver 0.0.0.0":                                       addresses("192.0.2.53"),
		"": nil,
	} {
		if got := nameserversOf(stub, filepath.Join(t.TempDir(), "none"), write(text)); !slices.Equal(got, want) {
			t.Errorf("of %q: %v, want %v", text, got, want)
		}
	}
}

// A container with an unreachable nameserver would wait for it before each name.
func TestNetworksGetReachableNameservers(t *testing.T) {
	t.Parallel()
	x := newFixture(t, subnetA)
	run(t, x.Netns, "ip", "address", "add", "192.0.2.1/24", "dev", "lo")
	run(t, x.Netns, "ip", "link", "set", "lo", "up")
	x.must("network.create", "front", map[string]any{"ipv4": "10.77.0.0/24"})
	x.must("network.create", "back", nil)
	ports := func() (front, back []netip.Addr) {
		t.Helper()
		both, err := x.Taps(t.Context(), ownerOf("vm"), refs([]string{"front", "back"}))
		if err != nil {
			t.Fatal(err)
		}
		return both[0].Nameservers, both[1].Nameservers
	}
	if front, back := ports(); front != nil || back != nil {
		t.Errorf("nameservers without a setting = %v and %v", front, back)
	}
	servers := addresses("192.0.2.1", "127.0.0.1", "fe80::1", "2001:db8::53", "192.0.2.53", "::ffff:192.0.2.53", "400:bbbb::53", "192.0.2.54", "192.0.2.55")
	x.Nameservers = func() []netip.Addr { return servers }
	front, back := ports()
	if want := addresses("192.0.2.53", "400:bbbb::53", "192.0.2.54"); !slices.Equal(front, want) {
		t.Errorf("network with ipv4 has %v, want %v", front, want)
	}
	if want := addresses("400:bbbb::53"); !slices.Equal(back, want) {
		t.Errorf("network without ipv4 has %v, want %v", back, want)
	}
	servers = addresses("192.0.2.99") // the host now asks another one
	if front, back := ports(); !slices.Equal(front, servers) || len(back) > 0 {
		t.Errorf("after a change: %v and %v", front, back)
	}
}

func TestTheDoctorNamesUnreachableNameservers(t *testing.T) {
	for _, c := range []struct {
		servers []netip.Addr
		state   needs.State
		detail  string
	}{
		{addresses("192.0.2.53", "400:bbbb::53"), needs.OK, "192.0.2.53 (networks with ipv4), 400:bbbb::53"},
		{addresses("2001:db8::53", "127.0.0.53"), needs.Degraded, "no network reaches 2001:db8::53, 127.0.0.53"},
		{addresses("2001:db8::53", "192.0.2.53"), needs.OK, "192.0.2.53 (networks with ipv4); no network reaches 2001:db8::53, so guests do not get it"},
		{nil, needs.Degraded, "this host uses no nameserver on another host"},
	} {
		d := &Driver{Nameservers: func() []netip.Addr { return c.servers }}
		for _, f := range needs.Examine(t.Context(), "network", slices.DeleteFunc(d.Needs(), func(n needs.Need) bool { return n.Name != "nameservers" })) {
			if f.State != c.state || f.Detail != c.detail || f.State != needs.OK && !strings.Contains(f.Fix, "--nameserver") {
				t.Errorf("%v: %+v", c.servers, f)
			}
		}
	}
}
