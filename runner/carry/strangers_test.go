package carry

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/sal/saltest"
)

// TestNobodyGetsMoreThanTheWaybillSays tries waybills that are not the right ones. The driver is never asked.
func TestNobodyGetsMoreThanTheWaybillSays(t *testing.T) {
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
		"sealed by a stranger": {to.originBy(newKey(), to.waybill(from, to, "data")), writ.CodeSignerUnknown},
		"sealed by the node":   {to.originBy(from.key, to.waybill(from, to, "data")), writ.CodeSignerUnknown},
		"for another to have": {to.origin(from, "data", func(w *writ.Waybill) { w.To, w.ToKey = other.id, other.key.Public().(ed25519.PublicKey) }),
			writ.CodeSignatureInvalid},
		"of another node":    {to.origin(from, "data", func(w *writ.Waybill) { w.From = other.id }), writ.CodeSignatureInvalid},
		"of another cluster": {to.origin(from, "data", func(w *writ.Waybill) { w.Cluster = "c2" }), writ.CodeSignatureInvalid},
		"of another place":   {to.origin(from, "data", func(w *writ.Waybill) { w.Datacenter = "d2" }), writ.CodeSignatureInvalid},
		"expired":            {to.origin(from, "data", func(w *writ.Waybill) { w.Expires = time.Now().Add(-2 * time.Minute).UnixMilli() }), writ.CodeExpired},
		"of another moment":  {to.origin(from, "data", func(w *writ.Waybill) { w.Snapshot = "monday" }), writ.CodeSignatureInvalid},
		"nameless":           {to.origin(from, "data", func(w *writ.Waybill) { w.Transfer = "" }), writ.CodeBadRequest},
		"for an image":       {to.origin(from, "data", func(w *writ.Waybill) { w.Resource.Kind = writ.KindImage }), writ.CodeDriverMissing},
	} {
		if _, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), tt.origin); writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %s (%v), want %s", name, writ.CodeOf(err), err, tt.code)
		}
	}
	changed := to.origin(from, "data", nil)
	changed.Sealed = bytes.Replace(changed.Sealed, []byte("uid-of-data"), []byte("uid-of-xxxx"), 1)
	if _, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), changed); writ.CodeOf(err) != writ.CodeSignatureInvalid {
		t.Errorf("a changed waybill: %v", err)
	}
	if n := from.holds.Load(); n != 0 {
		t.Errorf("the volumes were asked for %d times", n)
	}
	// What is not there as the waybill says is another matter: the driver says so.
	for name, tt := range map[string]struct {
		change func(w *writ.Waybill)
		args   map[string]any
		code   writ.Code
	}{
		"gone":           {func(w *writ.Waybill) { w.Resource.Name = "none" }, copies("data"), writ.CodeResourceUnknown},
		"made anew":      {func(w *writ.Waybill) { w.UID = saltest.RefTo(writ.KindVolume, "other").UID }, copies("data"), writ.CodeResourceConflict},
		"no snapshot":    {func(w *writ.Waybill) { w.Snapshot = "none" }, copies("data", "snapshot", "none"), writ.CodeResourceUnknown},
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

// TestAWaybillIsShownToItsNodeOnly has somebody else at the address of the node.
func TestAWaybillIsShownToItsNodeOnly(t *testing.T) {
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
	if writ.CodeOf(err) != writ.CodeUnreachable || !errors.Is(err, errStranger) {
		t.Errorf("with a stranger at the address: %v", err)
	}
	if n := <-got; n != 0 {
		t.Errorf("the stranger was told %d bytes", n)
	}
}
