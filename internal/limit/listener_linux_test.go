package limit

import (
	"net"
	"testing"
)

func TestListenerHasPlacesForOtherNetworks(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Shares{Size: 8}
	l := s.Listener(inner)
	accepted := make(chan net.Conn, 16)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	from := func(address string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 12 {
		from("127.0.0.2")
	}
	refused := from("127.0.0.2")
	if n, err := refused.Read(make([]byte, 1)); err == nil { // must be closed
		t.Errorf("%d bytes from a silent server", n)
	}
	from("127.0.0.3")
	var taken int
	for conn := range accepted {
		taken++
		if host, _, _ := net.SplitHostPort(conn.RemoteAddr().String()); host == "127.0.0.3" {
			break
		}
	}
	if taken != 7 {
		t.Errorf("one network has %d of 8 places, want three quarters", taken-1)
	}
	inner.Close()
}
