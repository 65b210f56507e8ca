package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/sal"
	"writ/sal/saltest"
)

// Invalid transfer grants are rejected before the driver is called.
//
// Promise: Volumes and images: A node sends a volume only to the node and until the time that its supervisor signed,
// and shows its transfer grant to no other node.
// How: Signatures, and TLS 1.3 between the keys of both nodes.
// Also: TestATransferGrantIsShownToItsNodeOnly, TestAJobWithATransferGrantHasAnOrigin,
// TestCopyJobHasTransferGrant.
func TestATransferGrantBoundsEachTransfer(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	from.made("data", 0)
	from.made("other", 0)
	from.give(nil)
	other := from.node(t, "n3", t.TempDir(), kinds["directory"])
	other.address = from.address
	for name, tt := range map[string]struct {
		origin *Fetcher
		code   writ.Code
	}{
		"signed by a stranger": {to.originBy(newKey(), to.grant(from, to, "data")), writ.CodeRosterTooOld},
		"signed by the node":   {to.originBy(from.key, to.grant(from, to, "data")), writ.CodeRosterTooOld},
		"for another to have": {to.origin(from, "data", func(w *writ.TransferGrant) { w.To, w.ToKey = other.id, other.key.Public().(ed25519.PublicKey) }),
			writ.CodeSignatureInvalid},
		"of another node":    {to.origin(from, "data", func(w *writ.TransferGrant) { w.From = other.id }), writ.CodeSignatureInvalid},
		"of another cluster": {to.origin(from, "data", func(w *writ.TransferGrant) { w.Cluster = "c2" }), writ.CodeSignatureInvalid},
		"of another place":   {to.origin(from, "data", func(w *writ.TransferGrant) { w.Datacenter = "d2" }), writ.CodeSignatureInvalid},
		"expired":            {to.origin(from, "data", func(w *writ.TransferGrant) { w.Expires = time.Now().Add(-2 * time.Minute).UnixMilli() }), writ.CodeExpired},
		"of another moment":  {to.origin(from, "data", func(w *writ.TransferGrant) { w.Snapshot = "monday" }), writ.CodeSignatureInvalid},
		"nameless":           {to.origin(from, "data", func(w *writ.TransferGrant) { w.Transfer = "" }), writ.CodeBadRequest},
		"for an image":       {to.origin(from, "data", func(w *writ.TransferGrant) { w.Resource.Kind = writ.KindImage }), writ.CodeDriverMissing},
	} {
		if _, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), tt.origin); writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %s (%v), want %s", name, writ.CodeOf(err), err, tt.code)
		}
	}
	changed := to.origin(from, "data", nil)
	changed.Signed = bytes.Replace(changed.Signed, []byte("uid-of-data"), []byte("uid-of-xxxx"), 1)
	if _, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), changed); writ.CodeOf(err) != writ.CodeSignatureInvalid {
		t.Errorf("a changed transfer grant: %v", err)
	}
	if n := from.holds.Load(); n != 0 {
		t.Errorf("the volumes were asked for %d times", n)
	}
	// The driver reports a resource that does not match the grant.
	for name, tt := range map[string]struct {
		change func(w *writ.TransferGrant)
		args   map[string]any
		code   writ.Code
	}{
		"gone":           {func(w *writ.TransferGrant) { w.Resource.Name = "none" }, copies("data"), writ.CodeResourceUnknown},
		"made anew":      {func(w *writ.TransferGrant) { w.UID = saltest.RefTo(writ.KindVolume, "other").UID }, copies("data"), writ.CodeResourceConflict},
		"no snapshot":    {func(w *writ.TransferGrant) { w.Snapshot = "none" }, copies("data", "snapshot", "none"), writ.CodeResourceUnknown},
		"hidden":         {nil, copies("data"), ""},
		"too small here": {nil, copies("big", "size_gib", int64(1)), writ.CodeQuotaExceeded},
	} {
		source := "data"
		if name == "too small here" {
			source = "big"
			_, err := from.do(t.Context(), "volume.create", "big", map[string]any{"size_gib": int64(2)}, nil)
			must(t, err)
		}
		_, err := to.do(t.Context(), "volume.copy", strings.ReplaceAll(name, " ", "-"), tt.args, to.origin(from, source, tt.change))
		if writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %s (%v), want %s", name, writ.CodeOf(err), err, tt.code)
		}
	}
	to.clean()
}

// Another server listens at the address of the node.
func TestATransferGrantIsShownToItsNodeOnly(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	config, err := secured(newKey())
	must(t, err)
	got := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		secure := tls.Server(conn, config)
		n, _ := io.Copy(io.Discard, secure)
		got <- int(n)
	}()
	from.address = listener.Addr().String()
	_, err = to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	if writ.CodeOf(err) != writ.CodeUnreachable || !errors.Is(err, errWrongKey) {
		t.Errorf("with a stranger at the address: %v", err)
	}
	if n := <-got; n != 0 {
		t.Errorf("the stranger received %d bytes", n)
	}
}

// A node that shows an invalid grant meanwhile gets its own log line.
func TestRequestsOfStrangersLogFewLines(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	from.made("data", 0)
	from.give(nil)
	config, err := secured(newKey())
	must(t, err)
	for i := range 1000 {
		conn, err := net.Dial("tcp", from.address)
		must(t, err)
		if i%10 == 0 {
			conn = tls.Client(conn, config)
			_ = send(conn, request{Grant: []byte("nothing")})
		} else {
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	if lines := from.log.Lines("an unauthenticated client was refused"); lines < 2 || lines > 8 || from.log.Lines("code=BAD_REQUEST") == 0 {
		t.Errorf("a thousand strangers make %d lines:\n%.2000s", lines, &from.log)
	}
	unknown := to.origin(from, "data", func(w *writ.TransferGrant) { w.Resource.Kind = writ.KindImage })
	if _, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), unknown); writ.CodeOf(err) != writ.CodeDriverMissing {
		t.Error(err)
	}
	from.kill() // waits until it is logged
	if lines := from.log.Lines("another node was refused"); lines != 1 || from.log.Lines("code=DRIVER_MISSING") != 1 {
		t.Errorf("refusals of a node produced %d lines", lines)
	}
}

// Unauthenticated clients use all available places. From another address, with and without a key, they reconnect when
// they are closed; from the same address they keep their connections.
//
// Promise: Volumes and images: Unknown clients that occupy connections cannot prevent a copy, and a transfer grant
// has one stream.
// How: Excess connections without a grant displace the oldest of the largest network; a repeated request of a node
// replaces its earlier connection.
// Also: TestTheNetworkWithMostConnectionsLosesOne, TestATransferGrantHasOneStream, TestArchivesShareTheRateLimit.
func TestStrangersBlockNoTransfer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		address  string
		stubborn bool
	}{
		"from another address": {"127.0.0.2", true},
		"from the same":        {"127.0.0.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := plain(t)
			from.made("data", 1)
			from.give(nil)
			config, err := secured(newKey())
			must(t, err)
			ctx, stop := context.WithCancel(t.Context())
			out := make(chan bool, 1) // one was closed because the limit is reached
			var strangers sync.WaitGroup
			for i := range 2 * maxUnauthenticated {
				strangers.Go(func() {
					for again := true; again && ctx.Err() == nil; again = tt.stubborn {
						dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(tt.address)}}
						raw, err := dialer.DialContext(ctx, "tcp", from.address)
						if err != nil {
							continue
						}
						free := context.AfterFunc(ctx, func() { _ = raw.Close() })
						conn := raw
						if i%2 == 0 {
							conn = tls.Client(raw, config)
						}
						_, _ = conn.Read(make([]byte, 1)) // the server sends them no data
						_ = conn.Close()
						free()
						select {
						case out <- true:
						default:
						}
					}
				})
			}
			<-out
			_, err = to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
			stop()
			strangers.Wait()
			must(t, err)
			if diff := cmp.Diff(from.shape("data"), to.shape("copy")); diff != "" {
				t.Errorf("the copy (+) differs:\n%s", diff)
			}
		})
	}
}

// Connections come from several networks. A connection with a transfer grant keeps its place.
func TestTheNetworkWithMostConnectionsLosesOne(t *testing.T) {
	var p connections
	enter := func(address string) *client {
		g, _ := p.enter(&silent{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}, func(error) {})
		return g
	}
	gone := func(g *client) bool { return g.conn.(*silent).closed }
	shown := enter("192.0.2.1:1")
	must(t, shown.admit("run-1", false))
	early := enter("192.0.2.1:2")
	other := enter("[::ffff:192.0.2.2]:1")
	crowd := make([]*client, maxUnauthenticated-2)
	for i := range crowd {
		crowd[i] = enter(fmt.Sprintf("[2001:db8::%x]:1", i+1)) // all from the same network
	}
	late := enter("192.0.2.3:1")
	if !gone(crowd[0]) || gone(early) || gone(other) || gone(late) || gone(shown) || gone(crowd[1]) {
		t.Error("the closed connection is not the oldest of the crowd")
	}
	if err := crowd[0].admit("run-2", false); !errors.Is(err, errCrowded) {
		t.Errorf("the closed connection showed a transfer grant: %v", err)
	}
	for _, g := range append(crowd, early, other, late) {
		g.leave()
	}
	if len(p.unauthenticated) != 0 {
		t.Errorf("%d places are taken", len(p.unauthenticated))
	}
	for i := range maxTransfers {
		err := enter("192.0.2.9:1").admit(fmt.Sprintf("run-%d", i+1), false)
		if i == 0 && !gone(shown) || err != nil {
			t.Errorf("the transfer of before has its place still, %v", err)
		}
	}
	if err := enter("192.0.2.9:1").admit("run-one-too-many", false); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("connection over the limit: %v", err)
	}
	if err := enter("192.0.2.9:1").admit("run-one-too-many", true); err != nil {
		t.Errorf("connection without further needs: %v", err)
	}
}

// silent is a connection with a given source address.
type silent struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (s *silent) RemoteAddr() net.Addr { return s.from }

func (s *silent) Close() error {
	s.closed = true
	return nil
}

// The grant has just expired by the clock of the giver, but is valid within the clock skew.
func TestAStreamableSnapshotIsNotEvicted(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	driver := &liar{archive: sal.Archive{Edition: "e", Bytes: 4, SizeGiB: 1, Write: text([]byte("fine"))}}
	from.give(driver)
	config, err := secured(to.key)
	must(t, err)
	expires := time.Now().Add(-time.Second)
	conn, err := to.origin(from, "data", nil).connect(t.Context(), config, request{
		Grant: to.origin(from, "data", func(w *writ.TransferGrant) { w.Expires = expires.UnixMilli() }).Signed,
	})
	must(t, err)
	defer conn.Close()
	if a, _, err := readAnswer(conn); err != nil || a.Error != nil {
		t.Fatalf("answer = %+v, %v", a, err)
	}
	if due, until := driver.last.Load().Due, expires.Add(identity.Skew).Truncate(time.Millisecond); due.Before(until) {
		t.Errorf("the snapshot expires %s before the end of the stream", until.Sub(due))
	}
}

// The same grant is used repeatedly, without reading. Each time the previous stream ends, and other transfers are not
// delayed.
func TestATransferGrantHasOneStream(t *testing.T) {
	t.Parallel()
	from, _ := plain(t)
	fine := archiveOf(t, tar.Header{Name: "file"}, "fine")
	var given, most, total atomic.Int64
	more := make(chan bool, 2*maxStreams)
	from.give(&liar{archive: sal.Archive{Edition: "e", Bytes: 1 << 40, SizeGiB: 1, Write: func(_ context.Context, to io.Writer) error {
		most.Store(max(most.Load(), given.Add(1)))
		defer given.Add(-1)
		if total.Add(1); total.Load() > 2*maxStreams {
			_, err := to.Write(fine)
			return err
		}
		more <- true
		for {
			if _, err := to.Write(make([]byte, chunk)); err != nil {
				return err
			}
		}
	}}})
	greedy := from.node(t, "n2", t.TempDir(), kinds["directory"])
	origin := greedy.origin(from, "data", nil)
	config, err := secured(greedy.key)
	must(t, err)
	for range 2 * maxStreams {
		conn, err := origin.connect(t.Context(), config, request{Grant: origin.Signed})
		must(t, err)
		defer conn.Close()
		<-more
	}
	conn, err := origin.connect(t.Context(), config, request{Grant: greedy.origin(from, "other", nil).Signed})
	must(t, err)
	defer conn.Close()
	if a, _, err := readAnswer(conn); err != nil || a.Error != nil {
		t.Errorf("another transfer grant: %+v, %v", a, err)
	}
	if most.Load() > 2 {
		t.Errorf("one transfer grant had %d streams", most.Load())
	}
}
