package image

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"writ"
	"writ/internal/outbound"
	"writ/internal/reach"
)

// Promise: Volumes and images: `image.fetch` reaches only internet servers and the ranges that the operator opens, by
// any name, redirect or proxy.
// How: Addresses are compared at the socket and at each redirect; environment proxies are ignored; one error for all
// other addresses.
// Also: TestNoConnectionIsOpenedToARefusedAddress, TestNamesAndRedirectsCannotReachInside,
// TestNoProxyOfTheEnvironmentIsAsked, TestErrorsInPrivateRangesAreEqual.
func TestAddressesOutsideTheInternetAreNotPublic(t *testing.T) {
	for _, text := range []string{
		"127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16",
		"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
		"255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "400::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::10.0.0.1",
		"64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "2002:0a00:0001::1", "2002:0808:0808::1", "2001::1", "2001:0:5ef5:79fd::1", "2001:db8::1",
		"3fff::1", "100::1", "5f00::1",
	} {
		if a := netip.MustParseAddr(text); reach.Public(a) {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{"8.8.8.8", "93.184.215.14", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"} {
		if a := netip.MustParseAddr(text); !reach.Public(a) {
			t.Errorf("%s does not count as public", text)
		}
	}
	if reach.Public(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

// The error does not reveal the address of a name.
func TestNamesAndRedirectsCannotReachInside(t *testing.T) {
	inside := newImageServer(t, map[string][]byte{"/a": []byte("inside")})
	s := newImageServer(t, nil)
	private := netip.MustParseAddr("10.0.0.7")
	n := &network{
		names: map[string][]netip.Addr{
			serverName: {serverAddress}, "private.example.com": {private}, "meta.example.com": {netip.MustParseAddr("169.254.169.254")},
			"mapped.example.com": {netip.MustParseAddr("::ffff:10.0.0.7")}, "loop.example.com": {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")},
			"nobody.example.com": {},
		},
		servers: map[netip.Addr]*imageServer{serverAddress: s, private: inside, netip.MustParseAddr("127.0.0.1"): inside, netip.MustParseAddr("169.254.169.254"): inside},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.URL.Query().Get("host")+"/a", http.StatusFound)
	})
	s.Config.Handler = mux
	rebound := 0
	b := newFixture(t, s)
	n.on(b.Driver)
	b.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		if host == "rebinding.example.com" {
			if rebound++; rebound == 1 {
				return []netip.Addr{serverAddress}, nil
			}
			return []netip.Addr{private}, nil
		}
		return n.lookup(ctx, host)
	}
	var named []try
	for _, host := range []string{"private.example.com", "meta.example.com", "mapped.example.com", "loop.example.com", "nobody.example.com", "unknown.example.com"} {
		for _, url := range []string{"https://" + host + "/a", s.URL + "/to?host=" + host} {
			_, heard := b.fetchAs(t.Context(), stranger, "a", url, sum([]byte("inside")))
			if heard.code != writ.CodeUnreachable {
				t.Errorf("%s: %v", url, heard)
			}
			named = append(named, heard)
		}
	}
	for _, host := range []string{"10.0.0.7", "127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.7]", "[::ffff:a00:7]", "[fd00:ec2::254]", "0.0.0.0"} {
		for _, url := range []string{"https://" + host + "/a", s.URL + "/to?host=" + host} {
			_, heard := b.fetchAs(t.Context(), stranger, "a", url, sum([]byte("inside")))
			if heard.code != writ.CodeArgumentsInvalid {
				t.Errorf("%s: %v", url, heard)
			}
		}
	}
	if _, heard := b.fetchAs(t.Context(), stranger, "a", "https://rebinding.example.com/a", sum([]byte("inside"))); heard.code == "" {
		t.Error("a name that changed its address led inside")
	}
	for _, heard := range named {
		if heard.String() != named[0].String() {
			t.Errorf("errors reveal the address of a name: %v\nand %v", heard, named[0])
		}
	}
	for _, to := range n.dialled {
		if to.Addr() != serverAddress {
			t.Errorf("%s was dialled", to)
		}
	}
	if n := inside.asks.Load(); n > 0 {
		t.Errorf("the server inside was asked %d times", n)
	}
}

// A proxy could reach addresses that this node must not.
func TestNoProxyOfTheEnvironmentIsAsked(t *testing.T) {
	transport := outbound.Dialer{}.Transport(nil)
	if transport.Proxy != nil || transport.DialContext == nil || transport.DialTLSContext != nil {
		t.Errorf("servers are asked by way of %+v", transport)
	}
}

// In a private range that is permitted, all failures have the same message.
func TestErrorsInPrivateRangesAreEqual(t *testing.T) {
	text := []byte("the mirror's disk")
	mirror, untrusted := newImageServer(t, map[string][]byte{"/a": text, "/big": make([]byte, 4<<20)}), newImageServer(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/", mirror)
	for path, status := range map[string]int{"/forbidden": 403, "/broken": 500, "/gone": 410, "/redirect": 302} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1/")
			w.WriteHeader(status)
		})
	}
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) { // too large, without an announced size
		w.(http.Flusher).Flush()
		_, _ = w.Write(make([]byte, 4<<20))
	})
	mirror.Config.Handler = mux
	n := &network{names: map[string][]netip.Addr{}, servers: map[netip.Addr]*imageServer{}}
	b := newFixture(t, newImageServer(t, nil))
	b.MaxBytes, b.Allow = 1<<20, prefixes("10.0.0.0/8")
	for name, at := range map[string]string{serverName: "10.0.0.7", "closed.example.com": "10.0.0.8", "other.test": "10.0.0.9"} {
		n.names[name] = []netip.Addr{netip.MustParseAddr(at)}
	}
	n.servers[netip.MustParseAddr("10.0.0.7")], n.servers[netip.MustParseAddr("10.0.0.9")] = mirror, untrusted
	n.on(b.Driver)
	if _, heard := b.fetchAs(t.Context(), stranger, "good", "https://"+serverName+"/a", sum(text)); heard.code != "" || len(heard.said) > 0 {
		t.Fatalf("the operator allows it: %v", heard)
	}
	var all []try
	for _, url := range []string{
		"closed.example.com/a", serverName + ":444/a", serverName + "/none", serverName + "/forbidden", serverName + "/broken", serverName + "/gone", serverName + "/redirect",
		serverName + "/a", serverName + "/big", serverName + "/endless", "other.test/a", // wrong digest, too large, wrong certificate
	} {
		_, heard := b.fetchAs(t.Context(), stranger, "a", "https://"+url, strings.Repeat("0a", 32))
		if heard.code != writ.CodeUnreachable {
			t.Errorf("%s: %v", url, heard)
		}
		all = append(all, heard)
	}
	for i, heard := range all {
		if heard.String() != all[0].String() {
			t.Errorf("error %d differs: %v\nand %v", i, heard, all[0])
		}
		if strings.Contains(fmt.Sprint(heard), sum(text)) {
			t.Errorf("error contains a digest: %v", heard)
		}
	}
}

func prefixes(all ...string) (list []netip.Prefix) {
	for _, text := range all {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}
