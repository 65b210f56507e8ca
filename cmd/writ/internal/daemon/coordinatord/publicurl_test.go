package coordinatord

import (
	"net"
	"net/netip"
	"testing"

	"writ"
)

// Promise: Operation: A coordinator does not start with a `--public-url` that leads to its own listener with the
// wrong scheme.
// Also: TestCoordinatorRefusesURLItCannotServe.
func TestPublicURLFitsItsListener(t *testing.T) {
	t.Parallel()
	own := func(ip netip.Addr) bool { return ip.String() == "192.0.2.5" || ip.IsLoopback() }
	for _, tt := range []struct {
		url, listen string
		secure, ok  bool
		misleads    bool
	}{
		{"", "127.0.0.1:7440", false, true, false},
		{"http://127.0.0.1:7440", "127.0.0.1:7440", false, true, false},
		{"https://127.0.0.1:7440", "127.0.0.1:7440", false, false, false},
		{"https://localhost:7440", "127.0.0.1:7440", false, false, false},
		{"http://127.0.0.1:7440", "127.0.0.1:7440", true, false, false},
		{"https://writ.example.org", "127.0.0.1:7440", false, true, false}, // a proxy
		{"https://192.0.2.5:8443", "127.0.0.1:7440", false, true, false},
		{"http://192.0.2.5:7440", "192.0.2.5:7440", true, false, false},
		{"http://192.0.2.5:7440", "[::]:7440", true, false, false},
		{"http://192.0.2.6:7440", "[::]:7440", true, true, false}, // of another host
		{"http://192.0.2.5", "0.0.0.0:80", true, false, false},
		{"https://127.0.0.1:7440", "0.0.0.0:7440", true, true, true},
		{"https://localhost:8443", "192.0.2.5:7440", true, true, true},
	} {
		address, err := net.ResolveTCPAddr("tcp", tt.listen)
		if err != nil {
			t.Fatal(err)
		}
		p := newPublicAddress(tt.url, address, tt.secure)
		err = p.check(own)
		if (err == nil) != tt.ok || err != nil && writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%s at %s with TLS %v: %v, want it accepted: %v", tt.url, tt.listen, tt.secure, err, tt.ok)
		}
		if p.misleads() != tt.misleads {
			t.Errorf("%s at %s misleads: %v, want %v", tt.url, tt.listen, p.misleads(), tt.misleads)
		}
	}
}

func TestCoordinatorRefusesURLItCannotServe(t *testing.T) {
	c := newCoord(t, t.TempDir(), "127.0.0.1:0")
	c.PublicURL = "https://" + c.Listener.Addr().String()
	if err := refusal(t, c); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("%v, want USAGE", err)
	}
}
