package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/directory"
	"writ/sal/saltest"
)

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// imageServer serves images and can break off its answers.
type imageServer struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	// cut lists the lengths at which the next answers break off, one each.
	cut  []int
	tags bool          // sends ETags
	ask  func(n int64) // called before each request is answered; may be nil
	asks atomic.Int64
	got  []string // Range header of each request
}

func newImageServer(t testing.TB, files map[string][]byte) *imageServer {
	s := &imageServer{files: files, tags: true}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.URL = "https://" + serverName
	return s
}

// serverName is in the certificates of package httptest, and serverAddress is the server's address for drivers under
// test: a public one, as far as they can see.
const serverName = "example.com"

var serverAddress = netip.MustParseAddr("93.184.215.14")

// network replaces name servers and connections.
type network struct {
	names   map[string][]netip.Addr
	servers map[netip.Addr]*imageServer
	mu      sync.Mutex
	dialled []netip.AddrPort // addresses reached, in order
}

func (n *network) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	if all, ok := n.names[host]; ok {
		return all, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *network) reach(ctx context.Context, dialer *net.Dialer, to netip.AddrPort) (net.Conn, error) {
	if err := dialer.Control("tcp", to.String(), nil); err != nil { // as the real dialer does
		return nil, err
	}
	n.mu.Lock()
	n.dialled = append(n.dialled, to)
	n.mu.Unlock()
	if s := n.servers[to.Addr()]; s != nil && to.Port() == 443 {
		return net.Dial("tcp", s.Listener.Addr().String())
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: unix.ECONNREFUSED}
}

// on connects a driver to the network.
func (n *network) on(d *Driver) *Driver {
	d.lookup, d.reach, d.authorities = n.lookup, n.reach, x509.NewCertPool()
	for _, s := range n.servers {
		d.authorities.AddCert(s.Certificate())
	}
	return d
}

func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := s.asks.Add(1); s.ask != nil {
		s.ask(n)
	}
	s.mu.Lock()
	s.got = append(s.got, r.Header.Get("Range"))
	text, ok := s.files[r.URL.Path]
	cut := -1
	if len(s.cut) > 0 {
		cut, s.cut = s.cut[0], s.cut[1:]
	}
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if s.tags {
		w.Header().Set("ETag", `"`+sum(text)[:8]+`"`)
	}
	if cut >= 0 {
		w = &cutter{w, cut}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// cutter closes the connection after a number of bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	_, _ = c.ResponseWriter.Write(b[:n])
	if n < len(b) {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// A fetch beyond the limit fails and existing images stay. Files that no image needs make room.
//
// Promise: Volumes and images: Fetched images use at most `--image-disk` of a runner, a quarter of the disk by
// default; larger ones fail with `QUOTA_EXCEEDED`.
// How: Files are counted before and during writing or converting; unnamed images are deleted first.
// Also: TestConversionBeyondTheLimitIsStopped.
func TestImagesAreLimited(t *testing.T) {
	small, big := bytes.Repeat([]byte("small"), 1<<18), bytes.Repeat([]byte("x"), 20<<20)
	files := map[string][]byte{"/small": small, "/big": big}
	s, host := newImageServer(t, files), t.TempDir()
	local := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(local, big, 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(s, host, nil)
	d.MaxBytes, d.Dirs = 21<<20, []string{filepath.Dir(local)}
	o, _ := catalog.Lookup("image.fetch")
	gone, _ := catalog.Lookup("image.delete")
	do := func(o *catalog.Operation, name, url string, text []byte) error {
		t.Helper()
		args := map[string]any{}
		if url != "" {
			args = map[string]any{"url": url, "sha256": sum(text)}
		}
		decoded, err := o.Decode(args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Do(t.Context(), sal.Request{
			Operation: o, Resource: saltest.Resource(writ.KindImage, name), UID: writ.UID("uid-" + name), Args: decoded, Progress: func(string) {},
		})
		return err
	}
	if err := do(o, "small", s.URL+"/small", small); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.URL + "/big", "file://" + local} {
		err := do(o, "big", url, big)
		if writ.CodeOf(err) != writ.CodeQuotaExceeded || !strings.Contains(err.Error(), "needs at least 20 MiB, and other images use 2 MiB of the 21 MiB") || !strings.Contains(writ.AsError(err).Hint, "--image-disk") {
			t.Errorf("%s: %v", url, err)
		}
		if orphans, err := d.Orphans(t.Context()); err != nil || len(orphans) > 0 {
			t.Errorf("orphans after a refusal = %v, %v", orphans, err)
		}
	}
	if err := do(o, "same", s.URL+"/small", small); err != nil {
		t.Errorf("the same content again: %v", err)
	}
	for _, name := range []string{"small", "same"} {
		if err := do(gone, name, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := do(o, "big", s.URL+"/big", big); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// The size on disk counts, however little was fetched.
func TestConversionBeyondTheLimitIsStopped(t *testing.T) {
	host := t.TempDir()
	d := &Driver{Dir: filepath.Join(host, "image"), MaxBytes: 1 << 20}
	name, _, made := content{"p", "u", "x", "qcow2"}.begun()
	path := filepath.Join(host, made)
	c := conversion{part: &part{budget: d.budget(), to: filepath.Join(host, name), made: path}}
	ended := errors.New("ended")
	err := c.withinLimit(t.Context(), func(ctx context.Context) error {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 2<<20), 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return ended
	})
	if writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("it ends with %v", err)
	}
	if err := c.withinLimit(t.Context(), func(context.Context) error { return nil }); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("at its end: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := c.withinLimit(t.Context(), func(context.Context) error { return ended }); !errors.Is(err, ended) {
		t.Errorf("error = %v, want that of the call", err)
	}
}

func open(s *imageServer, host string, step func(string)) *Driver {
	n := &network{names: map[string][]netip.Addr{serverName: {serverAddress}}, servers: map[netip.Addr]*imageServer{serverAddress: s}}
	return n.on(&Driver{
		Dir: filepath.Join(host, "image"), Trees: &directory.Trees{Dir: filepath.Join(host, "trees"), Step: step}, Pause: time.Millisecond, Step: step,
	})
}

func TestConformance(t *testing.T) {
	text := []byte("a disk")
	archive := ociArchive(t, "layer", "layer")
	s := newImageServer(t, map[string][]byte{"/a": text, "/mirror/a": text, "/b": []byte("b"), "/oci": archive})
	suites := map[string]map[string]any{
		"raw": {"url": s.URL + "/a", "sha256": sum(text)},
		"oci": {"url": s.URL + "/oci", "sha256": sum(archive), "format": "oci"},
	}
	if there, err := testenv.Has("qemu-img"); err != nil {
		t.Error(err)
	} else if there {
		disk := qcow2(t, testenv.Need(t, "qemu-img"), "-f", "qcow2", "1M")
		s.files["/qcow2"] = disk
		suites["qcow2"] = map[string]any{"url": s.URL + "/qcow2", "sha256": sum(disk), "format": "qcow2"}
	}
	for name, args := range suites {
		t.Run(name, func(t *testing.T) {
			suite := saltest.Suite{
				Open: func(_ testing.TB, host string, step func(string)) sal.Driver { return open(s, host, step) },
				Make: saltest.Step{Operation: "image.fetch", Args: args},
			}
			if name == "raw" {
				suite.Mutable = map[string]any{"url": s.URL + "/mirror/a", "sha256": sum(text)}
				suite.Immutable = map[string]any{"url": s.URL + "/a", "sha256": sum([]byte("b"))}
			}
			saltest.Run(t, suite)
		})
	}
}

// fixture is a driver on a separate host.
type fixture struct {
	testing.TB
	*Driver
	host string
	said []string
	mu   sync.Mutex // guards said
}

func newFixture(t testing.TB, s *imageServer) *fixture {
	host := t.TempDir()
	b := &fixture{TB: t, Driver: open(s, host, nil), host: host}
	t.Cleanup(func() {
		if n := len(b.locks.Users()); n != 0 {
			t.Errorf("%d locks left over", n)
		}
	})
	return b
}

func (b *fixture) fetch(ctx context.Context, name string, args map[string]any) (sal.Outcome, error) {
	return b.do(ctx, "image.fetch", name, args)
}

func (b *fixture) do(ctx context.Context, operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, _ := catalog.Lookup(operation)
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.Do(ctx, sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindImage, name), UID: "u1", Args: decoded, Key: "k",
		Progress: func(text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, text)
		},
	})
}

// files returns the files below the host, without records.
func (b *fixture) files() (all []string) {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(b.host, "trees/trees/images/data/*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range found {
		all = append(all, filepath.Base(f))
	}
	return all
}

func TestTheProgressOfADownloadIsReported(t *testing.T) {
	content := make([]byte, 80<<20)
	s := newImageServer(t, map[string][]byte{"/a": content})
	b := newFixture(t, s)
	if _, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/a", "sha256": sum(content)}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(b.said, "64 of 80 MiB fetched") {
		t.Errorf("it says %q", b.said)
	}
}

func TestBrokenDownloadResumes(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	for name, tags := range map[string]bool{"with tags": true, "without tags": false} {
		t.Run(name, func(t *testing.T) {
			s := newImageServer(t, map[string][]byte{"/a": text})
			s.tags, s.cut = tags, []int{100_000, 50_000}
			b := newFixture(t, s)
			if _, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/a", "sha256": sum(text)}); err != nil {
				t.Fatal(err)
			}
			if len(s.got) != 3 || s.got[0] != "" || !strings.HasPrefix(s.got[1], "bytes=") || s.got[1] >= s.got[2] {
				t.Errorf("it asked for %q", s.got)
			}
			image, err := b.Image(t.Context(), saltest.Resource("", "").Project, writ.Ref{Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(image.Path); err != nil || !bytes.Equal(got, text) {
				t.Errorf("the file has %d bytes, %v", len(got), err)
			}
			if image.Format != "raw" || image.Bytes != int64(len(text)) || image.SHA256 != sum(text) {
				t.Errorf("it is %+v", image)
			}
		})
	}
}

func TestNewAttemptResumesTheDownload(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	s := newImageServer(t, map[string][]byte{"/a": text})
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(text)}
	b := newFixture(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	s.cut = []int{100_000, 0}
	s.ask = func(n int64) {
		if n == 2 {
			cancel()
		}
	}
	if _, err := b.fetch(ctx, "a", args); ctx.Err() == nil || err == nil {
		t.Fatalf("it was not stopped: %v", err)
	}
	s.mu.Lock() // a request may still be in progress
	s.cut = nil
	s.mu.Unlock()
	again := newFixture(t, s)
	again.Driver, again.host = open(s, b.host, nil), b.host
	if o, err := again.fetch(t.Context(), "a", args); err != nil || o.Change != writ.ChangeCreated {
		t.Fatalf("%q, %v", o.Change, err)
	}
	if last := s.got[len(s.got)-1]; !strings.HasPrefix(last, "bytes=") || !strings.HasPrefix(again.said[0], "resuming after") {
		t.Errorf("range = %q, progress = %q", last, again.said)
	}
}

// Content that changes on the server during the download must not be mixed.
func TestOtherContentIsFetchedFromTheStart(t *testing.T) {
	old, fresh := bytes.Repeat([]byte("old "), 1<<14), bytes.Repeat([]byte("new "), 1<<14)
	for name, tags := range map[string]bool{"with tags": true, "without tags": false} {
		t.Run(name, func(t *testing.T) {
			s := newImageServer(t, map[string][]byte{"/a": old})
			s.tags, s.cut = tags, []int{20_000}
			b := newFixture(t, s)
			s.ask = func(n int64) {
				if n > 1 {
					s.mu.Lock()
					s.files["/a"] = fresh
					s.mu.Unlock()
				}
			}
			if _, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/a", "sha256": sum(fresh)}); err != nil {
				t.Error(err)
			}
		})
	}
}

// Promise: Volumes and images: An image is fetched once per project and SHA-256, continues after a broken download,
// and stays while a name refers to it.
// How: Files are named by their digest, under a record that precedes them.
// Also: TestBrokenDownloadResumes, TestNewAttemptResumesTheDownload, TestASignatureInAQueryMayChange.
func TestDigestIsFetchedOncePerProject(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<16)
	s := newImageServer(t, map[string][]byte{"/a": text, "/b": []byte("b")})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(text)}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := b.fetch(t.Context(), fmt.Sprint("name-", i), args); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.asks.Load(); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
	for i := range 8 {
		if got := b.files(); len(got) != 1 || got[0] != sum(text)+".raw" {
			t.Errorf("files with %d names left = %q", 8-i, got)
		}
		if _, err := b.do(t.Context(), "image.delete", fmt.Sprint("name-", i), nil); err != nil {
			t.Error(err)
		}
	}
	if got := b.files(); len(got) > 0 {
		t.Errorf("files without a name = %q", got)
	}

	stray := filepath.Join(b.host, "trees/trees/images/data", sum([]byte("stray"))+".raw")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if orphans, err := b.Orphans(t.Context()); err != nil || len(orphans) != 1 || orphans[0].Name != stray || orphans[0].Remedy != "rm -r "+stray {
		t.Errorf("the orphans are %v, %v", orphans, err)
	}
	if _, err := b.fetch(t.Context(), "b", map[string]any{"url": s.URL + "/b", "sha256": sum([]byte("b"))}); err != nil {
		t.Fatal(err)
	}
	if got := b.files(); len(got) != 1 || got[0] != sum([]byte("b"))+".raw" {
		t.Errorf("files after another fetch = %q", got)
	}
}

// havers uses an image from the given call on.
type havers struct {
	after int
	asked func() // called at the first call
}

func (h *havers) ImageUsers(_ context.Context, image sal.Owner) ([]sal.Owner, error) {
	if h.asked != nil {
		h.asked()
		h.asked = nil
	}
	h.after--
	if h.after >= 0 || !image.Means(saltest.Resource(writ.KindImage, "a").Project, writ.Ref{Kind: writ.KindImage, Name: "a"}) {
		return nil, nil
	}
	return []sal.Owner{{Resource: saltest.Resource(writ.KindMachine, "web"), UID: "u2"}}, nil
}

// The image also stays if a resource starts to use it during its deletion, and wherever the runner stops.
//
// Promise: Volumes and images: An image in use by a machine or container cannot be deleted, and the error names the
// user.
// How: The driver marks it as closed, then asks every possible user; a new user records its use, then checks the
// mark.
// Also: TestMachineOwnsItsBootImages, TestAnImageIsItsContainers.
func TestAnImageInUseStays(t *testing.T) {
	text := []byte("a kernel")
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/a", "sha256": sum(text)}
	if _, err := b.fetch(t.Context(), "a", args); err != nil {
		t.Fatal(err)
	}
	project, a := saltest.Resource(writ.KindImage, "a").Project, writ.Ref{Kind: writ.KindImage, Name: "a", UID: "u1"}
	stays := func() {
		t.Helper()
		_, err := b.do(t.Context(), "image.delete", "a", nil)
		if writ.CodeOf(err) != writ.CodeResourceBusy || !strings.Contains(err.Error(), "machine web") {
			t.Errorf("it was deleted: %v", err)
		}
		if _, err := b.Image(t.Context(), project, a); err != nil {
			t.Errorf("it was not deleted, and is not there: %v", err)
		}
	}
	b.Users = []sal.ImageUsers{&havers{}}
	stays()
	b.Users = []sal.ImageUsers{&havers{after: 1}} // unused at the first check
	stays()
	if got := b.files(); len(got) != 1 {
		t.Errorf("its file is gone: %q", got)
	}

	// A caller does not get the image during its deletion. A runner that stopped then restores it.
	h := &havers{after: 2}
	h.asked = func() {
		b.Step = func(step string) {
			if step != "rename record" {
				return
			}
			b.Step = func(string) {
				b.Step = nil
				if _, err := b.Image(t.Context(), project, a); writ.CodeOf(err) != writ.CodeResourceBusy {
					t.Errorf("it can be taken although it goes: %v", err)
				}
				panic("the runner ends")
			}
		}
	}
	b.Users = []sal.ImageUsers{h}
	func() {
		defer func() { _ = recover() }()
		_, err := b.do(t.Context(), "image.delete", "a", nil)
		t.Errorf("did not stop: %v", err)
	}()
	if drift, err := b.Keep(t.Context(), saltest.Resource(writ.KindImage, "a")); err != nil || len(drift) > 0 {
		t.Errorf("after that: %v, %v", drift, err)
	}
	if _, err := b.Image(t.Context(), project, a); err != nil {
		t.Errorf("image is gone without a delete: %v", err)
	}
	b.Users = nil
	if _, err := b.do(t.Context(), "image.delete", "a", nil); err != nil || len(b.files()) > 0 {
		t.Errorf("unused image: %v, %q", err, b.files())
	}
}

// If the runner stops after the record is written, the next attempt removes the unfinished files.
func TestNextAttemptRemovesUnfinishedFiles(t *testing.T) {
	disk := qcow2(t, testenv.Need(t, "qemu-img"), "-f", "qcow2", "1M")
	s := newImageServer(t, map[string][]byte{"/disk": disk})
	b := newFixture(t, s)
	args := map[string]any{"url": s.URL + "/disk", "sha256": sum(disk), "format": "qcow2"}
	b.Step = func(step string) {
		if step == "remove the file" {
			panic("the runner ends")
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, err := b.fetch(t.Context(), "a", args)
		t.Errorf("did not stop: %v", err)
	}()
	b.Step = nil
	if len(b.files()) < 2 {
		t.Fatalf("files after the stop = %q, want at least 2", b.files())
	}
	if o, err := b.fetch(t.Context(), "a", args); err != nil || o.Change != writ.ChangeUnchanged {
		t.Errorf("%v, %v", o.Change, err)
	}
	if got := b.files(); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}

// Promise: Volumes and images: An invalid image leaves no file: a wrong SHA-256, a qcow2 disk with references, an
// incomplete archive, a full disk.
// How: Checks precede its name.
// Also: TestAFullDiskIsReportedAndFreed.
func TestAFailedFetchLeavesNoFile(t *testing.T) {
	qemu := testenv.Need(t, "qemu-img")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	files := map[string][]byte{
		"/text":    []byte("text"),
		"/backed":  qcow2(t, qemu, "-f", "qcow2", "-b", secret, "-F", "raw"),
		"/outside": qcow2(t, qemu, "-f", "qcow2", "-o", "data_file="+filepath.Join(t.TempDir(), "data"), "1M"),
		"/good":    qcow2(t, qemu, "-f", "qcow2", "1M"),
		"/torn":    ociArchive(t, "layer", "layer")[:1600],
		"/forged":  bytes.Replace(ociArchive(t, "layer", "layer"), []byte("layer"), []byte("forge"), 1),
		"/stolen":  ociArchive(t, "layer", "the layer of another project"),
	}
	s := newImageServer(t, files)
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("/down", http.RedirectHandler(plain.URL, http.StatusFound))
	mux.HandleFunc("/private", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	s.Config.Handler = mux
	for _, tt := range []struct {
		path, format string
		code         writ.Code
		says         string
	}{
		{"/none", "raw", writ.CodeNotFound, "404"},
		{"/private", "raw", writ.CodeArgumentsInvalid, "403"},
		{"/down", "raw", writ.CodeArgumentsInvalid, "without https"},
		{"/wrong", "raw", writ.CodeChecksumMismatch, "is not"},
		{"/good", "raw", writ.CodeArgumentsInvalid, "qcow2"},
		{"/text", "qcow2", writ.CodeArgumentsInvalid, "qcow2 header"},
		{"/backed", "qcow2", writ.CodeArgumentsInvalid, "backing file"},
		{"/outside", "qcow2", writ.CodeArgumentsInvalid, "another file"},
		{"/text", "oci", writ.CodeArgumentsInvalid, "OCI"},
		{"/torn", "oci", writ.CodeArgumentsInvalid, "EOF"},
		{"/forged", "oci", writ.CodeArgumentsInvalid, "has the SHA-256"},
		{"/stolen", "oci", writ.CodeArgumentsInvalid, "has the diff_id"},
	} {
		b := newFixture(t, s)
		text, digest := files[tt.path], ""
		if digest = sum(text); tt.path == "/wrong" {
			s.files["/wrong"] = files["/text"]
			digest = strings.Repeat("0a", 32)
		}
		_, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + tt.path, "sha256": digest, "format": tt.format})
		if writ.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s as %s: %v, want %s with %q", tt.path, tt.format, err, tt.code, tt.says)
		}
		if all, _ := b.List(t.Context()); len(all) > 0 || len(b.files()) > 0 {
			t.Errorf("%s as %s left %v and %q", tt.path, tt.format, all, b.files())
		}
	}
}

func TestAbsentServerLeavesNoPartOfDeletedImages(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<16)
	s := newImageServer(t, map[string][]byte{"/a": text})
	s.cut = []int{100_000, 0, 0, 0, 0}
	b := newFixture(t, s)
	_, err := b.fetch(t.Context(), "a", map[string]any{"url": s.URL + "/a", "sha256": sum(text)})
	if writ.CodeOf(err) != writ.CodeUnreachable || writ.AsError(err).Hint == "" {
		t.Fatalf("it ended with %v", err)
	}
	if _, err := b.Image(t.Context(), saltest.Resource("", "").Project, writ.Ref{Name: "a"}); writ.CodeOf(err) != writ.CodeResourceUnknown {
		t.Errorf("half of it is an image: %v", err)
	}
	if len(b.files()) == 0 {
		t.Error("no part is kept for the next attempt")
	}
	if _, err := b.do(t.Context(), "image.delete", "a", nil); err != nil || len(b.files()) > 0 {
		t.Errorf("files after the delete = %q, %v", b.files(), err)
	}
}

func TestLocalDiskIsConverted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.qcow2")
	if err := os.WriteFile(path, qcow2(t, testenv.Need(t, "qemu-img"), "-f", "qcow2", "3M"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newFixture(t, newImageServer(t, nil))
	b.Dirs = []string{filepath.Dir(path)}
	o, err := b.fetch(t.Context(), "a", map[string]any{"url": "file://" + path, "sha256": sum(text), "format": "qcow2"})
	if err != nil {
		t.Fatal(err)
	}
	image, err := b.Image(t.Context(), saltest.Resource("", "").Project, writ.Ref{Name: "a", UID: "u1"})
	if err != nil || image.Format != "raw" || image.Bytes != 3<<20 || o.Values["format"] != "qcow2" || o.Values["size_mib"] != int64(3) {
		t.Errorf("it is %+v, %v, and answered %v", image, err, o.Values)
	}
	if err := os.Remove(image.Path); err != nil {
		t.Fatal(err)
	}
	if drift, err := b.Keep(t.Context(), saltest.Resource(writ.KindImage, "a")); err != nil || len(drift) != 1 || drift[0].Mended {
		t.Errorf("drift without the file = %v, %v", drift, err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = b.fetch(t.Context(), "b", map[string]any{"url": "file://" + path, "sha256": sum(text), "format": "qcow2"})
	if writ.CodeOf(err) != writ.CodeDriverMissing || !strings.Contains(writ.AsError(err).Hint, "apt-get install") {
		t.Errorf("without a converter: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{})
	f.Add(append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, header []byte) {
		if err := checkHeader(header); err != nil && writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Errorf("%v has no code", err)
		}
	})
}

// qcow2 creates a disk with arguments of qemu-img create.
func qcow2(t testing.TB, qemu string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	at := len(args)
	if last := args[at-1]; strings.HasSuffix(last, "M") {
		at--
	}
	args = append(append(append([]string{"create", "-q"}, args[:at]...), path), args[at:]...)
	for range 5 {
		said, err := exec.Command(qemu, args...).CombinedOutput()
		// To choose the number of rounds for a key, it measures its CPU time, which fails on a busy machine.
		if bytes.Contains(said, []byte("Unable to get accurate CPU usage")) {
			continue
		}
		if err != nil {
			t.Fatalf("qemu-img: %v: %s", err, said)
		}
		break
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ociArchive returns an archive with one image of one layer, which has one file with the text layer. The config states
// the digest of a layer whose file has the text config.
func ociArchive(t testing.TB, layer, config string) []byte {
	t.Helper()
	o := testenv.NewOCI()
	image := o.Image(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{testenv.DigestOf(testenv.TextLayer(config))}},
	}, o.Blob(testenv.LayerType, testenv.TextLayer(layer)))
	text, err := o.Index(image).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
