package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// Promise: Volumes and images: A copy of a volume on another node is the volume at its first request, continues after
// a cut or kill, and is valid only with the right SHA-256.
// How: A hidden snapshot per call; equal archives to the byte; the received length is recorded.
// Also: TestCutCopyResumes, TestACopyOutlivesBothEnds, TestACopyBetweenNodesOutlivesTheirEnds,
// sal/volume.TestConformance, TestACopyOutlivesACrashAtEachStepOfEitherEnd.
func TestVolumeArrivesUnchanged(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		from.made("data", 2)
		from.give(nil)
		_, err := from.do(t.Context(), "volume.snapshot", "data", map[string]any{"snapshot": "monday"}, nil)
		must(t, err)
		for name, args := range map[string]map[string]any{"now": copies("data"), "then": copies("data", "snapshot", "monday")} {
			snapshot, _ := args["snapshot"].(string)
			origin := to.origin(from, "data", func(w *writ.TransferGrant) { w.Snapshot = snapshot })
			if _, err := to.do(t.Context(), "volume.copy", name, args, origin); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(from.shape("data"), to.shape(name)); diff != "" {
				t.Errorf("%s: the copy (+) differs:\n%s", name, diff)
			}
		}
		values, err := from.do(t.Context(), "volume.resize", "data", map[string]any{"size_gib": int64(2)}, nil)
		must(t, err)
		if all := values["snapshots"].([]any); len(all) != 1 || all[0] != "monday" {
			t.Errorf("the volume has the snapshots %v", all)
		}
		from.clean()
		to.clean()
	})
}

// Every connection is cut after a part of the archive. Received data is not sent again, and later changes of the volume
// are not in the copy.
func TestCutCopyResumes(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		dir := from.made("data", 4)
		want := from.shape("data")
		from.give(nil)
		from.cutAt.Store(1 << 20)
		origin := to.origin(from, "data", nil)
		origin.Patience = 0 // it is cut, not unreachable
		changed := false
		origin.Progress = func(text string) {
			if !changed {
				changed = true
				must(t, os.WriteFile(filepath.Join(dir, "some", "where", "small"), []byte("after"), 0o600))
			}
		}
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
		must(t, err)
		if diff := cmp.Diff(want, to.shape("copy")); diff != "" || !changed {
			t.Errorf("the copy (+) differs, or was never cut (%v):\n%s", !changed, diff)
		}
		if sent := from.sent.Load(); sent > 5<<20 {
			t.Errorf("%d bytes were sent for little more than 4 MiB", sent)
		}
		from.clean()
		to.clean()
	})
}

// Both nodes are killed repeatedly during a copy, and continue from the data on their disks.
func TestACopyOutlivesBothEnds(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		from.made("data", 4)
		want := from.shape("data")
		from.cutAt.Store(1 << 20)
		ends := 0
		for {
			from.restart()
			from.give(nil)
			ctx, kill := context.WithCancel(t.Context())
			origin := to.origin(from, "data", nil)
			origin.Patience, origin.Progress = 0, func(string) { kill() }
			before := to.partial()
			_, err := to.do(ctx, "volume.copy", "copy", copies("data"), origin)
			kill()
			if err == nil {
				break
			}
			if after := to.partial(); !errors.Is(err, context.Canceled) || after <= before {
				t.Fatalf("%v, with %d bytes after %d", err, after, before)
			}
			ends++
			to.restart()
		}
		if diff := cmp.Diff(want, to.shape("copy")); diff != "" || ends < 3 {
			t.Errorf("after %d ends the copy (+) differs:\n%s", ends, diff)
		}
		if sent := from.sent.Load(); sent > 5<<20 {
			t.Errorf("%d bytes were sent for little more than 4 MiB", sent)
		}
		from.clean()
		to.clean()
	})
}

// archiveOf makes an archive with one entry.
func archiveOf(t *testing.T, h tar.Header, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h.Size, h.Mode = int64(len(content)), 0o644
	must(t, w.WriteHeader(&h))
	_, err := w.Write([]byte(content))
	must(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// The giving node sends invalid archives.
//
// Promise: Volumes and images: A node that lies or delays during a copy creates no volume, writes only inside the
// volume, and stays within the call's limits.
// How: Sizes and times are agreed before the first byte; digests; one directory for names.
// Also: TestWrongDigestIsPermanent, TestSlowNodeCostsOnlyTheCallsTime, TestConcurrentArchivesAreLimited,
// TestCopyRespectsTheProjectQuota.
func TestInvalidArchiveMakesNoVolume(t *testing.T) {
	t.Parallel()
	fine := archiveOf(t, tar.Header{Name: "file"}, "fine")
	for name, tt := range map[string]struct {
		archive sal.Archive
		code    writ.Code
	}{
		"a way out":           {sal.Archive{Write: text(archiveOf(t, tar.Header{Name: "../../out"}, "out")), Bytes: int64(len(archiveOf(t, tar.Header{Name: "../../out"}, "out")))}, writ.CodeArgumentsInvalid},
		"a link out":          {sal.Archive{Write: text(archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../../x"}, "")), Bytes: int64(len(archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../../x"}, "")))}, writ.CodeArgumentsInvalid},
		"no archive":          {sal.Archive{Write: text(bytes.Repeat([]byte("x"), 4096)), Bytes: 4096}, writ.CodeArgumentsInvalid},
		"nothing":             {sal.Archive{Write: text(nil), Bytes: 0}, writ.CodeArgumentsInvalid},
		"half":                {sal.Archive{Write: text(fine[:1024]), Bytes: 1024}, writ.CodeArgumentsInvalid},
		"more than announced": {sal.Archive{Write: text(fine), Bytes: int64(len(fine)) - 512}, writ.CodeUnreachable},
		"less than announced": {sal.Archive{Write: text(fine), Bytes: int64(len(fine)) + 512}, writ.CodeChecksumMismatch},
		"a panic":             {sal.Archive{Write: func(context.Context, io.Writer) error { panic("told to") }, Bytes: 512}, writ.CodeUnreachable},
		"far too much":        {sal.Archive{Write: text(fine), Bytes: 5 << 30}, writ.CodeQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := plain(t)
			tt.archive.Edition = "e"
			from.give(&liar{archive: tt.archive})
			_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
			if writ.CodeOf(err) != tt.code {
				t.Errorf("%s (%v), want %s", writ.CodeOf(err), err, tt.code)
			}
			if _, err := to.do(t.Context(), "volume.delete", "copy", nil, nil); err != nil {
				t.Error(err)
			}
			to.clean()
			if all, err := to.driver.List(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("%v, %v are left", all, err)
			}
			if _, err := os.Lstat(filepath.Join(to.dir, "out")); err == nil {
				t.Error("it got out")
			}
		})
	}
}

// Received data is corrupted on disk. The digest detects this, and the archive is fetched again.
func TestOneWrongByteIsFetchedAgainOnce(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	from.made("data", 2)
	want := from.shape("data")
	from.give(nil)
	from.cutAt.Store(1 << 20)
	origin := to.origin(from, "data", nil)
	origin.Progress = func(string) { from.kill() }
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
	if writ.CodeOf(err) != writ.CodeUnreachable || to.partial() < 512<<10 {
		t.Fatalf("%v, with %d bytes", err, to.partial())
	}
	all, err := filepath.Glob(filepath.Join(to.dir, "volumes", "arriving", "*"))
	must(t, err)
	f, err := os.OpenFile(all[0], os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("?"), 300<<10)
	must(t, errors.Join(err, f.Close()))
	from.cutAt.Store(0)
	from.give(nil)
	to.restart()
	_, err = to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	must(t, err)
	if diff := cmp.Diff(want, to.shape("copy")); diff != "" {
		t.Errorf("the copy (+) differs:\n%s", diff)
	}
}

// A node repeatedly sends a digest that does not match its data.
func TestWrongDigestIsPermanent(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	fine := archiveOf(t, tar.Header{Name: "file"}, "fine")
	connections := from.fake(func(conn net.Conn, _ request) {
		must(t, send(conn, answer{Edition: "e", Bytes: int64(len(fine)), SizeGiB: 1}))
		_, err := conn.Write(fine)
		must(t, err)
		must(t, send(conn, trailer{SHA256: strings.Repeat("0", 64)}))
	})
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	if writ.CodeOf(err) != writ.CodeChecksumMismatch || connections.Load() != 1 {
		t.Errorf("%v after %d connections", err, connections.Load())
	}
	to.clean()
}

// A node answers with another part than requested.
func TestWrongPartOfAnArchiveIsPermanent(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	connections := from.fake(func(conn net.Conn, _ request) {
		must(t, send(conn, answer{Edition: "e", Bytes: 10, Offset: 5, SizeGiB: 1}))
	})
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	if e := writ.AsError(err); e == nil || e.Retryable() || connections.Load() != 1 {
		t.Errorf("%v after %d connections", err, connections.Load())
	}
	to.clean()
}

// A node sends only one byte. The next attempt continues with the second.
func TestSlowNodeCostsOnlyTheCallsTime(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	fine := archiveOf(t, tar.Header{Name: "file"}, "fine")
	ctx, over := context.WithCancel(t.Context())
	var offsets []int64
	from.fake(func(conn net.Conn, r request) {
		offsets = append(offsets, r.Offset)
		must(t, send(conn, answer{Edition: "e", Bytes: int64(len(fine)), Offset: r.Offset, SizeGiB: 1}))
		_, err := conn.Write(fine[r.Offset : r.Offset+1])
		must(t, err)
		for to.partial() < r.Offset+1 {
			time.Sleep(time.Millisecond)
		}
		over()
		_, _ = conn.Read(make([]byte, 1)) // until the other end gives up
	})
	for range 2 {
		if _, err := to.do(ctx, "volume.copy", "copy", copies("data"), to.origin(from, "data", nil)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		ctx, over = context.WithCancel(t.Context())
	}
	if len(offsets) != 2 || offsets[0] != 0 || offsets[1] != 1 || to.partial() != 2 {
		t.Errorf("requested offsets = %v, stored %d bytes", offsets, to.partial())
	}
	over()
}

// fake replaces the server of the node.
func (n *node) fake(serve func(conn net.Conn, r request)) (connections *atomic.Int64) {
	n.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(n, err)
	config, err := secured(n.key)
	must(n, err)
	n.address, connections = listener.Addr().String(), new(atomic.Int64)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, config)
			var r request
			if err := receive(secure, &r); err == nil && !r.Done {
				connections.Add(1)
				serve(secure, r)
			}
			_ = secure.Close()
		}
	}()
	n.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return connections
}

func TestVolumeDeletedMeanwhileIsNotCopied(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		from.made("data", 2)
		from.give(nil)
		from.cutAt.Store(1 << 20)
		origin := to.origin(from, "data", nil)
		origin.Patience = 0
		origin.Progress = func(string) {
			from.turn.Lock()
			defer from.turn.Unlock()
			_, err := from.do(t.Context(), "volume.delete", "data", nil, nil)
			must(t, err)
		}
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
		if writ.CodeOf(err) != writ.CodeResourceUnknown || !strings.Contains(err.Error(), "n1") {
			t.Errorf("%s: %v", writ.CodeOf(err), err)
		}
		from.clean()
		to.clean()
	})
}

// The receiving node never requests the rest, and the snapshot expires.
//
// Promise: Volumes and images: A copy leaves no data at its source after its grant expires, and at its target only a
// complete volume.
// How: Transfer data is recorded with its expiry; it is deleted with its volume or when the copy is cancelled.
// Also: TestVolumeDeletedMeanwhileIsNotCopied, TestCancelledCopyLeavesNoFiles.
func TestAnAbandonedCopyLeavesNoData(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		from.made("data", 2)
		from.give(nil)
		from.cutAt.Store(1 << 20)
		origin := to.origin(from, "data", nil)
		origin.Progress = func(string) { from.kill() }
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
		if e := writ.AsError(err); e == nil || e.Code != writ.CodeUnreachable || !strings.Contains(e.Hint, "n1") || to.partial() < 512<<10 {
			t.Fatalf("%v, with %d bytes", err, to.partial())
		}
		for _, later := range []time.Duration{0, 25 * time.Hour} {
			for _, n := range []*node{from, to} {
				n.restart()
				n.driver.Now = func() time.Time { return time.Now().Add(later) }
				all, err := n.driver.List(t.Context())
				must(t, err)
				for _, resource := range all {
					if drift, err := n.driver.Keep(t.Context(), resource); err != nil || len(drift) > 0 {
						t.Errorf("%v, %v", drift, err)
					}
				}
			}
			if later == 0 && to.partial() < 0 {
				t.Error("the received part was deleted at once")
			}
		}
		from.clean()
		to.clean()
		if all, err := to.driver.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%v, %v are left", all, err)
		}
	})
}

// More archives are requested than the limit. All arrive in the end.
func TestConcurrentArchivesAreLimited(t *testing.T) {
	t.Parallel()
	from, _ := plain(t)
	fine := archiveOf(t, tar.Header{Name: "file"}, "fine")
	var mu sync.Mutex
	now, most, full := 0, 0, make(chan bool)
	from.give(&liar{archive: sal.Archive{Edition: "e", Bytes: int64(len(fine)), SizeGiB: 1, Write: func(_ context.Context, to io.Writer) error {
		mu.Lock()
		now++
		if most < now {
			if most = now; most == maxStreams {
				close(full)
			}
		}
		mu.Unlock()
		<-full
		_, err := to.Write(fine)
		mu.Lock()
		now--
		mu.Unlock()
		return err
	}}})
	done := make(chan error)
	const all = 3 * maxStreams
	for i := range all {
		to := from.node(t, "n2", t.TempDir(), kinds["directory"])
		go func() {
			origin := to.origin(from, "data", func(w *writ.TransferGrant) { w.Transfer = fmt.Sprintf("run-%d-1", i) })
			origin.Progress = nil
			o, _ := catalog.Lookup("volume.copy")
			args, err := o.Decode(copies("data"))
			if err == nil {
				_, err = to.driver.Do(context.WithoutCancel(t.Context()), sal.Request{
					Operation: o, Resource: saltest.Resource(writ.KindVolume, "copy"), UID: "u", Args: args, Origin: origin, Progress: func(string) {},
				})
			}
			done <- err
		}()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most != maxStreams {
		t.Errorf("%d archives were given at a time", most)
	}
}

// Another operation runs on the volume, longer than the patience for an unreachable node.
func TestBusyVolumeIsAwaited(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	from.made("data", 0)
	from.give(nil)
	from.busy.Store(2)
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	must(t, err)
	if diff := cmp.Diff(from.shape("data"), to.shape("copy")); diff != "" {
		t.Errorf("the copy (+) differs:\n%s", diff)
	}
}

// The first half of an archive is produced only for its digest, so slowly that a keep-alive message is necessary.
func TestResumedCopyGetsKeepAlives(t *testing.T) {
	var wire bytes.Buffer
	out := &tail{to: &wire, skip: 10, head: answer{Edition: "e", Bytes: 20, Offset: 10}, last: time.Now().Add(-keepalive)}
	for _, piece := range []string{"01234", "56", "789abc", "defghij"} {
		if n, err := io.WriteString(out, piece); n != len(piece) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	a, lives, err := readAnswer(&wire)
	if want := (answer{Edition: "e", Bytes: 20, Offset: 10}); err != nil || !lives || a != want {
		t.Errorf("answer = %+v, %v, other end alive: %v", a, err, lives)
	}
	if wire.String() != "abcdefghij" {
		t.Errorf("then came %q", wire.String())
	}
}

func TestNodeWithoutTransfersHasAHint(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeDriverMissing || !strings.Contains(e.Hint, "--transfers") {
		t.Errorf("%v", err)
	}
	to.clean()
}

// A node does not have the roster with its supervisor's key, first temporarily, then permanently.
func TestNodeWithOldRosterGetsTime(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	from.made("data", 0)
	from.give(nil)
	from.behind.Store(1)
	origin := to.origin(from, "data", nil)
	origin.Patience = 0
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), origin)
	must(t, err)
	from.behind.Store(1 << 40)
	_, err = to.do(t.Context(), "volume.copy", "again", copies("data"), to.origin(from, "data", nil))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeRosterTooOld || !e.Retryable() || !strings.Contains(e.Hint, "n1") {
		t.Errorf("%v", err)
	}
}

// The supervisor does not know the address of a node yet. The error is retryable, and has no hint about a missing
// option.
func TestNodeWithoutAddressIsRetried(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", func(w *writ.TransferGrant) { w.Unheard = true }))
	if e := writ.AsError(err); e == nil || e.Code != writ.CodeUnreachable || !e.Retryable() || strings.Contains(e.Hint, "--transfers") {
		t.Errorf("%v", err)
	}
	to.clean()
}

// A copy is cancelled in the middle: it does not continue, and neither node keeps data. A copy that timed out may be
// resumed and is kept.
func TestCancelledCopyLeavesNoFiles(t *testing.T) {
	onEach(t, func(t *testing.T, from, to *node) {
		from.made("data", 2)
		from.give(nil)
		from.cutAt.Store(1 << 20)
		for _, tt := range []struct {
			code writ.Code
			kept bool
		}{{writ.CodeDeadlineExceeded, true}, {writ.CodeRunCancelled, false}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			origin := to.origin(from, "data", nil)
			origin.Progress = func(string) {
				from.cutAt.Store(0)
				cancel(writ.Errorf(tt.code, "it is over"))
			}
			if tt.kept {
				origin.Patience = 0
			}
			before := to.partial()
			_, err := to.do(ctx, "volume.copy", "copy", copies("data"), origin)
			if err == nil || ctx.Err() == nil {
				t.Fatalf("%s: %v", tt.code, err)
			}
			if kept := to.partial() > before; kept != tt.kept {
				t.Errorf("%s: received part kept: %v", tt.code, kept)
			}
			from.cutAt.Store(1 << 20)
		}
		from.clean()
		to.clean()
		if all, err := to.driver.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%v, %v are left", all, err)
		}
	})
}

// The giving node fails for reasons of its own. A full disk there does not require space here, and a failed journal
// there does not make the attempt free.
func TestPeerErrorsGetAnotherCode(t *testing.T) {
	t.Parallel()
	from, to := plain(t)
	for said, heard := range map[writ.Code]writ.Code{
		writ.CodeDiskFull:         writ.CodeUnreachable,
		writ.CodeNodeStore:        writ.CodeUnreachable,
		writ.CodeResourceUnknown:  writ.CodeResourceUnknown,
		writ.CodeResourceConflict: writ.CodeResourceConflict,
		writ.CodeInternal:         writ.CodeInternal,
	} {
		from.kill()
		from.give(&liar{refuses: writ.Errorf(said, "there is something").WithHint("do this")})
		_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
		if e := writ.AsError(err); e == nil || e.Code != heard || e.Message != "the node n1 answered: there is something" || e.Hint != "do this" {
			t.Errorf("%s is heard as %v", said, err)
		}
	}
}
