package daemontest

import (
	"net"
	"testing"

	"writ/cmd/writ/internal/daemon"
)

// Listening is a listener of a test.
func Listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Elsewhere is a listener with the address of another interface than loopback.
type Elsewhere struct{ net.Listener }

// Addr returns an address of another interface than loopback.
func (Elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9180} }
