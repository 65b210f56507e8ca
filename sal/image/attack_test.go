package image

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// The author of a script chooses URL, digest and format of an image, and has a server with a trusted certificate. The
// tests below use these powers to gain other information.

const stranger = writ.ProjectID("6c1f3c1e-7d0b-4bb5-9a7e-5a1d2f0c9b11")

// try is the answer that a project gets to one fetch.
type try struct {
	code writ.Code
	text string // message and hint
	said []string
}

// fetchAs fetches for a project. It returns the answer without the URL and digest of the request.
func (b *fixture) fetchAs(ctx context.Context, project writ.ProjectID, name, url, digest string) (sal.Outcome, try) {
	b.Helper()
	o, _ := catalog.Lookup("image.fetch")
	args, err := o.Decode(map[string]any{"url": url, "sha256": digest})
	if err != nil {
		b.Fatal(err)
	}
	var heard try
	resource := saltest.Resource(writ.KindImage, name)
	resource.Project = project
	outcome, err := b.Do(ctx, sal.Request{
		Operation: o, Resource: resource, UID: "u-" + writ.UID(name), Args: args, Key: "k",
		Progress: func(text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			heard.said = append(heard.said, text)
		},
	})
	if err != nil {
		e := writ.AsError(err)
		heard.code, heard.text = e.Code, strings.NewReplacer(url, "URL", digest, "DIGEST").Replace(e.Message+"; "+e.Hint)
	}
	return outcome, heard
}

func (t try) String() string { return fmt.Sprintf("%s %q, said %q", t.code, t.text, t.said) }

// Files outside the image directories, missing files, unreadable files, links that lead out, and files with another
// digest have the same error, whatever their size, and the error is immediate. The operator's log has the cause, once
// in a while.
//
// Promise: Volumes and images: A script reads a node's file only below a directory that the operator opened, and only
// with its SHA-256.
// How: `os.Root` below `--image-dir`, regular files only; the file is hashed first, and every obstacle gives the same
// error.
// Also: TestImagesComeFromTheOperatorsSources.
func TestErrorsDoNotRevealWhichFilesExist(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	secret, open := filepath.Join(outside, "key"), filepath.Join(dir, "disk")
	for _, path := range []string{secret, open} {
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": secret, "far": filepath.Join("..", filepath.Base(outside), "key"), "dirout": outside, "in": "disk", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, bytes := range map[string]int64{"long": 65 << 20, "many": 90 << 20, "huge": 8 << 40} { // progress starts at 64 MiB
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	digest := sum([]byte("secret"))
	b := newFixture(t, newImageServer(t, nil))
	var log bytes.Buffer
	b.Driver.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.MaxBytes = 128 << 20
	var all []try
	refused := func(path, digest string) {
		t.Helper()
		_, heard := b.fetchAs(t.Context(), stranger, "a", "file://"+path, digest)
		if heard.code != writ.CodeNotFound {
			t.Errorf("%s: %v", path, heard)
		}
		all = append(all, heard)
	}
	refused(open, digest) // no directory is permitted yet
	b.Dirs = []string{dir}
	for _, path := range []string{
		secret, outside, outside + "/none", "/dev/zero", "/proc/self/environ", dir, dir + "/none", dir + "/out", dir + "/far", dir + "/dirout/key", dir + "/loop",
		dir + "/pipe", dir + "/disk/x", dir + "/../" + filepath.Base(outside) + "/key", dir + "/%2e%2e/" + filepath.Base(outside) + "/key", dir + "/a%00b", dir + "x/key",
	} {
		refused(path, digest)
	}
	refused(open, strings.Repeat("0a", 32))
	b.Step = func(step string) { // a copy would reduce the free space
		if part, _ := filepath.Glob(b.host + "/trees/trees/images/data/*.part"); step == "remove the file" && len(part) == 1 {
			if info, err := os.Stat(part[0]); err != nil || info.Size() > 0 {
				t.Errorf("it is copied: %v, %v", info, err)
			}
		}
	}
	for _, path := range []string{dir + "/long", dir + "/many", dir + "/huge"} {
		refused(path, digest)
		b.MaxBytes = 80 << 20
	}
	b.Step = nil
	for _, heard := range all {
		if heard.String() != all[0].String() {
			t.Errorf("errors differ: %v\nand %v", heard, all[0])
		}
	}
	for i, path := range []string{open, dir + "/in", dir + "/../" + filepath.Base(dir) + "/disk"} {
		if _, heard := b.fetchAs(t.Context(), stranger, fmt.Sprint("open-", i), "file://"+path, digest); heard.code != "" {
			t.Errorf("%s is open: %v", path, heard)
		}
	}
	if _, heard := b.fetchAs(t.Context(), stranger, "long", "file://"+dir+"/long", sum(make([]byte, 65<<20))); heard.code != "" || !slices.Contains(heard.said, "64 of 65 MiB fetched") {
		t.Errorf("progress for a caller with the digest: %v", heard)
	}
	if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "not below a directory") {
		t.Errorf("operator's log = %q", said)
	}
	owner := saltest.Resource(writ.KindImage, "a").Project
	if _, heard := b.fetchAs(t.Context(), owner, "a", "file://"+dir+"/huge", digest); heard.code != writ.CodeNotFound || !strings.Contains(log.String(), "8192.0 GiB") {
		t.Errorf("%v, operator's log = %q", heard, log.String())
	}
}

// Bytes of the attacker followed by bytes of another URL never make an image, so no digest of both can confirm a guess.
//
// Promise: Volumes and images: Bytes of two URLs never form one image, so no digest tests the content of another file
// or server.
// How: A part belongs to one project and one URL and continues only from its source, behind all redirects.
// Also: TestRedirectToAnotherServerStartsAgain, TestPartsOfEarlierVersionsAreDiscarded.
func TestDigestCannotTestBytesOfAnotherURL(t *testing.T) {
	prefix, secret := bytes.Repeat([]byte("own "), 1<<12), []byte("0123456789 and the key of the node")
	file := filepath.Join(t.TempDir(), "key")
	both := slices.Concat(prefix, secret)
	if err := os.WriteFile(file, both, 0o600); err != nil { // the attacker chooses length and offset
		t.Fatal(err)
	}
	victim := newImageServer(t, map[string][]byte{"/secret": both})
	victim.tags = false
	for name, second := range map[string]string{"a file": "file://" + file, "another server": "https://victim.example.com/secret"} {
		for _, open := range []bool{false, true} {
			s := newImageServer(t, map[string][]byte{"/own": slices.Concat(prefix, bytes.Repeat([]byte("x"), len(secret)))})
			s.tags = false
			s.cut = []int{len(prefix), 0, 0, 0, 0, 0, 0, 0}
			b := newFixture(t, s)
			n := &network{
				names:   map[string][]netip.Addr{serverName: {serverAddress}, "victim.example.com": {netip.MustParseAddr("93.184.215.15")}},
				servers: map[netip.Addr]*imageServer{serverAddress: s, netip.MustParseAddr("93.184.215.15"): victim},
			}
			n.on(b.Driver)
			if _, heard := b.fetchAs(t.Context(), stranger, "control", "https://victim.example.com/secret", sum(both)); heard.code != "" {
				t.Fatalf("the other server is not reached: %v", heard)
			}
			if open {
				b.Dirs = []string{filepath.Dir(file)}
			}
			// Digest of the attacker's changed bytes, followed by the secret from that offset on.
			forged := slices.Concat(bytes.Repeat([]byte("own "), 1<<12), secret)
			forged[0] = 'O' // otherwise the whole file would be the content
			s.files["/own"][0] = 'O'
			if _, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+"/own", sum(forged)); heard.code != writ.CodeUnreachable {
				t.Fatalf("fetch was not interrupted: %v", heard)
			}
			if len(b.files()) < 2 {
				t.Fatal("no part is kept")
			}
			for _, image := range []string{"b", "a"} { // under another name, then under the same one
				if _, heard := b.fetchAs(t.Context(), stranger, image, second, sum(forged)); heard.code == "" {
					t.Errorf("%s, open %t: the guess is confirmed", name, open)
				}
			}
		}
	}
}

// The server redirects the first request to itself, and the request for the rest to another server.
func TestRedirectToAnotherServerStartsAgain(t *testing.T) {
	own, secret := bytes.Repeat([]byte("own "), 1<<12), []byte("what the other server has")
	for name, tags := range map[string]bool{"with tags": true, "without tags": false} {
		s := newImageServer(t, map[string][]byte{
			"/own": slices.Concat(own, bytes.Repeat([]byte("x"), len(secret))), "/secret": slices.Concat(bytes.Repeat([]byte("y"), len(own)), secret),
		})
		s.tags, s.cut = tags, []int{len(own)}
		mux, asked := http.NewServeMux(), 0
		mux.Handle("/", s)
		mux.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) {
			to := "/own"
			if asked++; asked > 1 {
				to = "/secret"
			}
			http.Redirect(w, r, to, http.StatusFound)
		})
		s.Config.Handler = mux
		b := newFixture(t, s)
		if _, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+"/start", sum(slices.Concat(own, secret))); heard.code == "" {
			t.Errorf("%s: parts of two contents became an image", name)
		}
		if asked < 2 {
			t.Errorf("%s: the rest was never asked for", name)
		}
	}
}

// Object stores redirect to URLs with a new signature each time, and the download must resume.
func TestASignatureInAQueryMayChange(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	s := newImageServer(t, map[string][]byte{"/blob": text})
	s.cut = []int{100_000}
	mux, asked := http.NewServeMux(), 0
	mux.Handle("/", s)
	mux.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, fmt.Sprint("/blob?signature=", asked), http.StatusFound)
	})
	s.Config.Handler = mux
	b := newFixture(t, s)
	if _, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+"/start", sum(text)); heard.code != "" {
		t.Fatal(heard)
	}
	if len(s.got) != 2 || !strings.HasPrefix(s.got[1], "bytes=") {
		t.Errorf("it asked for %q", s.got)
	}
}

// A project that knows a digest fetches the content itself or gets no image.
//
// Promise: Volumes and images: A project gets content by its digest only if it fetched that content itself, and
// learns of no other project's content.
// How: Parts and slots belong to one project; equal files are shared after the fetch and count for each project.
// Also: TestSharedFileStaysForItsLastProject.
func TestContentOfAnotherProjectStaysHidden(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<16)
	owner := saltest.Resource(writ.KindImage, "a").Project
	hear := func(there bool) (all []try, values map[string]any) {
		s := newImageServer(t, map[string][]byte{"/a": text, "/mirror": text, "/other": []byte("other")})
		b := newFixture(t, s)
		b.MaxBytes = 3 * int64(len(text))
		first := text
		if !there {
			first = bytes.Repeat([]byte("else"), 1<<16)
			s.files["/a"] = first
		}
		if _, heard := b.fetchAs(t.Context(), owner, "a", s.URL+"/a", sum(first)); heard.code != "" {
			t.Fatal(heard)
		}
		for _, path := range []string{"/none", "/other"} {
			_, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+path, sum(text))
			if heard.code == "" {
				t.Errorf("%s: the content is given by its digest", path)
			}
			all = append(all, heard)
		}
		_, heard := b.fetchAs(t.Context(), stranger, "a", "https://none.example.com/a", sum(text))
		all = append(all, heard)
		before := s.asks.Load()
		outcome, heard := b.fetchAs(t.Context(), stranger, "b", s.URL+"/mirror", sum(text))
		if heard.code != "" || s.asks.Load() != before+1 {
			t.Errorf("it has the content, and it was not fetched for it: %v", heard)
		}
		all = append(all, heard)
		// The free disk space is the same whether the file is shared or not.
		rest := bytes.Repeat([]byte("r"), len(text)+8192)
		s.files["/rest"] = rest
		_, heard = b.fetchAs(t.Context(), stranger, "c", s.URL+"/rest", sum(rest))
		if heard.code != writ.CodeQuotaExceeded {
			t.Errorf("fetch without free space: %v", heard)
		}
		all = append(all, heard)
		if whole := slices.DeleteFunc(b.files(), func(name string) bool { return !strings.HasSuffix(name, ".raw") }); len(whole) != map[bool]int{true: 1, false: 2}[there] {
			t.Errorf("images = %q", whole)
		}
		if _, err := b.do(t.Context(), "image.delete", "a", nil); err == nil {
			t.Error("the owner has another UID")
		}
		delete(outcome.Values, "path") // each test has its own directory
		return all, outcome.Values
	}
	with, valuesWith := hear(true)
	without, valuesWithout := hear(false)
	for i := range with {
		if with[i].String() != without[i].String() {
			t.Errorf("progress reveals another project's copy: %v\nand otherwise %v", with[i], without[i])
		}
	}
	if fmt.Sprint(valuesWith) != fmt.Sprint(valuesWithout) {
		t.Errorf("values reveal another project's copy: %v and %v", valuesWith, valuesWithout)
	}
}

// No project waits for the fetch of another one.
func TestSharedFileStaysForItsLastProject(t *testing.T) {
	text := bytes.Repeat([]byte("disk"), 1<<16)
	s := newImageServer(t, map[string][]byte{"/a": text})
	held, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("/hangs", func(w http.ResponseWriter, r *http.Request) {
		close(held)
		<-release
		s.files["/hangs"] = text
		s.ServeHTTP(w, r)
	})
	s.Config.Handler = mux
	b := newFixture(t, s)
	owner := saltest.Resource(writ.KindImage, "a").Project
	done := make(chan try)
	go func() {
		_, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+"/hangs", sum(text))
		done <- heard
	}()
	<-held // another project's digest, and a silent server
	if _, heard := b.fetchAs(t.Context(), owner, "a", s.URL+"/a", sum(text)); heard.code != "" {
		t.Error(heard)
	}
	close(release)
	if heard := <-done; heard.code != "" {
		t.Error(heard)
	}
	if got := b.files(); len(got) != 1 {
		t.Errorf("files for one content of two projects = %q", got)
	}
	o, _ := catalog.Lookup("image.delete")
	for i, project := range []writ.ProjectID{owner, stranger} {
		resource := saltest.Resource(writ.KindImage, "a")
		resource.Project = project
		if _, err := b.Image(t.Context(), project, writ.Ref{Name: "a"}); err != nil {
			t.Errorf("after %d deletions: %v", i, err)
		}
		if _, err := b.Do(t.Context(), sal.Request{Operation: o, Resource: resource, UID: "u-a", Progress: func(string) {}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.files(); len(got) > 0 {
		t.Errorf("files without a name = %q", got)
	}
}

// The URL of such parts is unknown.
func TestPartsOfEarlierVersionsAreDiscarded(t *testing.T) {
	text := []byte("content")
	s := newImageServer(t, map[string][]byte{"/a": text})
	b := newFixture(t, s)
	dir, err := b.store().create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{".part", ".etag", ".raw.part"} {
		if err := os.WriteFile(filepath.Join(dir, sum(text)+ending), text[:3], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, heard := b.fetchAs(t.Context(), stranger, "a", s.URL+"/a", sum(text)); heard.code != "" {
		t.Fatal(heard)
	}
	if got := b.files(); len(got) != 1 || !slices.Equal(s.got, []string{""}) {
		t.Errorf("files = %q, ranges = %q", got, s.got)
	}
	if _, err := hex.DecodeString(strings.TrimSuffix(b.files()[0], ".raw")); err != nil {
		t.Error(err)
	}
}
