package bootserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestSlowNetworksKeepNoMachineOut opens more connections than the boot server allows, from six addresses that send
// no request. A machine with another address still gets its script.
func TestSlowNetworksKeepNoMachineOut(t *testing.T) {
	s, err := New(Config{Image: make([]byte, 1<<10), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	operators, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, machines, operators) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dialer := func(host byte) *net.Dialer {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}, Timeout: 10 * time.Second}
	}
	for i, n := range []int{780, 200, 60, 20, 10, 5} { // each address uses its fair share of the rest
		for range n {
			conn, err := dialer(byte(2+i)).Dial("tcp", machines.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer(99).DialContext, DisableKeepAlives: true}}
	response, err := client.Get("http://" + machines.Addr().String() + "/boot/ipxe?mac=52:54:00:00:00:01")
	if err != nil {
		t.Fatalf("a machine gets no connection: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a machine gets %s", response.Status)
	}
}
