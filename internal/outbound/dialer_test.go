package outbound

import (
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
