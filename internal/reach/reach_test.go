package reach

import (
	"net"
	"net/netip"
	"testing"
)

func TestLoopbackIsThisMachineOnly(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.org": false, "127.0.0.1:80": false, "[::1]": false,
	} {
		if Loopback(host) != want {
			t.Errorf("%q: %t", host, !want)
		}
	}
}

func TestOnlyServersOnTheInternetArePublic(t *testing.T) {
	for _, tt := range []struct {
		what      string
		addresses []string
		public    bool
	}{
		{"a server", []string{"8.8.8.8", "93.184.215.14", "2606:2800:220:1::1", "2a00:1450::1"}, true},
		{"next to a special range", []string{
			"9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
			"172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
			"223.255.255.255", "168.63.129.15", "2001:200::1", "2003::1", "2001:db7::1", "2001:db9::1",
		}, true},
		{"IPv4 in IPv6", []string{"::ffff:8.8.8.8", "64:ff9b::8.8.8.8"}, true},
		{"loopback", []string{"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1"}, false},
		{"unspecified", []string{"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"}, false},
		{"private", []string{
			"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::c0a8:101",
		}, false},
		{"of a carrier (CGNAT)", []string{"100.64.0.0", "100.127.255.255", "::ffff:100.64.0.1"}, false},
		{"link-local", []string{"169.254.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1"}, false},
		{"unique local (ULA)", []string{"fc00::1", "fd00::1", "fdff:ffff::1"}, false},
		{"of the metadata service", []string{
			"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		}, false},
		{"6to4, Teredo and other ways to pack IPv4", []string{
			"2002:0a00:0001::1", "2002:0808:0808::1", "2001::1", "2001:0:5ef5:79fd::1", "192.88.99.1", "::10.0.0.1", "::8.8.8.8", "64:ff9b:1::8.8.8.8",
		}, false},
		{"for documentation and benchmarks", []string{
			"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255", "2001:db8::1", "3fff::1", "2001:2::1",
		}, false},
		{"multicast and broadcast", []string{"224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1", "ff0e::1"}, false},
		{"not handed out", []string{"240.0.0.1", "100::1", "400::1", "4000::1", "5f00::1"}, false},
	} {
		for _, text := range tt.addresses {
			if a := netip.MustParseAddr(text); Public(a) != tt.public {
				t.Errorf("%s (%s): Public = %t", text, tt.what, !tt.public)
			}
		}
	}
	if Public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

// ownAddresses returns the addresses of this host.
func ownAddresses(t *testing.T) (all []netip.Addr) {
	t.Helper()
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		if p, err := netip.ParsePrefix(o.String()); err == nil {
			all = append(all, p.Addr())
		}
	}
	return all
}

func TestHostAddressesAreKnownInEveryForm(t *testing.T) {
	found := 0
	for _, a := range ownAddresses(t) {
		forms := []netip.Addr{a}
		if a = a.Unmap(); a.Is4() {
			b := a.As4()
			behind := nat64.Addr().As16()
			copy(behind[12:], b[:])
			forms = append(forms, netip.AddrFrom16(a.As16()), netip.AddrFrom16(behind))
		}
		for _, form := range forms {
			found++
			if !OfThisHost(form) || Allowed(form, nil) {
				t.Errorf("%s, which is %s, counts as another host's", form, a)
			}
		}
	}
	if found == 0 {
		t.Skip("this host has no address")
	}
	if OfThisHost(netip.MustParseAddr("192.0.2.1")) {
		t.Error("an address of documentation counts as this host's")
	}
}

func TestOperatorAllowsRanges(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}
	for text, want := range map[string]bool{
		"8.8.8.8": true, "10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00:1::7": true, "fd00:1::7%eth0": true,
		"10.2.0.1": false, "fd00:2::7": false, "169.254.169.254": false, "64:ff9b::10.1.2.3": false,
	} {
		if a := netip.MustParseAddr(text); Allowed(a, ranges) != want {
			t.Errorf("%s: Allowed = %t", text, !want)
		}
	}
}
