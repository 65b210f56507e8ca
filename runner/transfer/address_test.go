package transfer

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"writ"
	"writ/internal/reach"
)

// visited returns the address of a listener on this host and the number of its connections.
func visited(t *testing.T, serve func(net.Conn)) (address string, visits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	visits = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), visits
}

// A node chooses its own address for transfers. A compromised node must not make other nodes connect to arbitrary
// addresses in their networks.
//
// Promise: Volumes and images: A node that announces a transfer address cannot direct another node to a service of
// the other node's host or network.
// How: Each address is compared right before the connection with the internet and `--transfer-allow`; all errors are
// equal.
// Also: TestATransferDoesNotRevealOpenPorts.
func TestANodeConnectsOnlyWhereItsOperatorAllows(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	address, visits := visited(t, func(net.Conn) {})
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	for _, host := range []string{"127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.255.255.1", "fe80::1", "fd00::1", "400:1::1"} {
		origin := to.origin(from, "data", func(w *writ.TransferGrant) { w.Address = net.JoinHostPort(host, port) })
		origin.Allow = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
		if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(writ.AsError(err).Hint, "--transfer-allow") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("it connected %d times", n)
	}
	for text, want := range map[string]bool{"8.8.8.8": true, "127.0.0.1": true, "127.255.0.1": true, "10.0.0.1": false} {
		if got := reach.Allowed(netip.MustParseAddr(text), loopback); got != want {
			t.Errorf("%s with 127.0.0.0/8 allowed: %t", text, got)
		}
	}
}

// The node that chose the address must not learn whether it has an open port, or which server answers.
func TestATransferDoesNotRevealOpenPorts(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	config, err := secured(newKey())
	must(t, err)
	stranger, _ := visited(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(c, config)) })
	silent, _ := visited(t, func(net.Conn) {})
	talks, _ := visited(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example ESMTP\r\n") })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	said := map[string]string{}
	for name, address := range map[string]string{
		"a stranger": stranger, "who hangs up": silent, "another protocol": talks, "a closed port": closed.Addr().String(),
		"an address that is refused": "10.255.255.1:25", "a name that does not exist": "nobody.invalid:25",
	} {
		origin := to.origin(from, "data", func(w *writ.TransferGrant) { w.Address = address })
		var progress []string
		origin.Progress = func(text string) { progress = append(progress, text) }
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
		if writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("%s: %v", name, err)
		}
		said[strings.ReplaceAll(writ.AsError(err).Message+writ.AsError(err).Hint+strings.Join(progress, "\n"), address, "ADDRESS")] += name + "; "
	}
	if len(said) != 1 {
		t.Errorf("different answers: %q", said)
	}
}
