package limit

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestCrowdKeepsPlacesForSmallNetworks fills a listener from three networks. New connections of small networks take
// the places of the largest one.
func TestCrowdKeepsPlacesForSmallNetworks(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	crowd := &Crowd{Size: 6}
	l := crowd.Listener(inner)
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	from := func(host string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0." + host)}}).Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var open []net.Conn
	for _, host := range []string{"2", "2", "2", "3", "3", "4"} {
		open = append(open, from(host))
		<-accepted
	}
	isOpen := func(conn net.Conn) bool {
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		timeout, ok := errors.AsType[net.Error](err)
		return ok && timeout.Timeout()
	}
	refused := from("2") // the largest network displaces no other connection
	_ = refused.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("the largest network gets another place")
	}
	from("5")
	last := <-accepted
	for i, want := range []bool{false, true, true, true, true, true} {
		if isOpen(open[i]) != want {
			t.Errorf("connection %d is open: %t, want %t", i, !want, want)
		}
	}
	_ = last.Close()
	from("3") // into the free place
	<-accepted
	if !isOpen(open[1]) {
		t.Error("a connection ended although a place was free")
	}
}
