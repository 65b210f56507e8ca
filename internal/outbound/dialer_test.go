package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// The test uses the real dialer, a real server on this host, and the check of the connected socket.
func TestNoConnectionIsOpenedToARefusedAddress(t *testing.T) {
	asked := make(chan struct{}, 10)
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer s.Close()
	to := netip.MustParseAddrPort(s.Listener.Addr().String())
	d := Dialer{}
	for _, network := range []string{"tcp", "tcp4"} {
		if conn, err := d.connect(t.Context(), network, to); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, %v", network, conn, err)
		}
	}
	d.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	conn, err := d.connect(t.Context(), "tcp", to)
	if err != nil {
		t.Fatalf("the operator allows it: %v", err)
	}
	_ = conn.Close()
	d.Allow = nil
	own, _ := net.InterfaceAddrs()
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			if ok, _ := d.allowed(p.Addr()); ok {
				t.Errorf("the host's own address %s is allowed", p)
			}
		}
	}
}

func TestNameWithForbiddenAddressesIsRefused(t *testing.T) {
	private, public := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("1.1.1.1")
	for name, tt := range map[string]struct {
		addresses []netip.Addr
		want      bool
	}{
		"all private": {[]netip.Addr{private, netip.MustParseAddr("fd00::1")}, true},
		"one public":  {[]netip.Addr{private, public}, false},
		"none":        {nil, false},
	} {
		d := Dialer{
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return tt.addresses, nil },
			Reach: func(context.Context, *net.Dialer, netip.AddrPort) (net.Conn, error) {
				return nil, errors.New("unreachable")
			},
		}
		_, err := d.dial(t.Context(), "tcp", "registry.example:443")
		if err == nil || errors.Is(err, ErrAllRefused) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
