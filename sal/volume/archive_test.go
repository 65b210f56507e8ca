package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/saltest"
)

// packed returns the archive of a directory.
func packed(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pack(t.Context(), &b, dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackTo unpacks an archive into a new directory.
func unpackTo(t testing.TB, archive []byte) string {
	t.Helper()
	dir := t.TempDir()
	u := &unpacking{fits: func(int64) error { return nil }, step: func(string) {}}
	if err := u.unpack(t.Context(), dir, bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// furnishAll is furnish plus content that only archives keep.
func furnishAll(t testing.TB, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "many", strings.Repeat("long-", 40), "ünïcode\nname"), "a name that plain headers cannot tell")
	writeFile(t, filepath.Join(dir, "many", "names"), "one file")
	holes(t, filepath.Join(dir, "disk"), 10<<30, 1<<20, 5<<30, 10<<30-4096)
	holes(t, filepath.Join(dir, "empty-disk"), 1<<30)
	for _, err := range []error{
		os.Link(filepath.Join(dir, "many", "names"), filepath.Join(dir, "another name")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o620),
		setAttributes(filepath.Join(dir, "many", "names")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	furnish(t, dir)
}

// holes creates a file with 4 KiB of data at each offset and holes elsewhere.
func holes(t testing.TB, path string, size int64, at ...int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range at {
		_, e := f.WriteAt(bytes.Repeat([]byte("data"), 1024), offset)
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// shape extends tree with hard links, attributes, and the offsets of data and holes in disks.
func shape(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := tree(t, dir)
	for _, name := range []string{"/disk", "/empty-disk"} {
		f, err := os.Open(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Sys().(*syscall.Stat_t).Blocks < 1<<20>>9 {
			all[name] += " with holes"
		}
		for _, at := range []int64{1 << 20, 5 << 30, 10<<30 - 4096} {
			start := make([]byte, 8)
			n, _ := f.ReadAt(start, at)
			all[name] += " " + strings.Trim(string(start[:n]), "\x00")
		}
	}
	one, e1 := os.Stat(filepath.Join(dir, "many/names"))
	two, e2 := os.Stat(filepath.Join(dir, "another name"))
	if err := errors.Join(e1, e2); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(one, two) {
		all["/many/names"] += " is /another name"
	}
	all["/many/names"] += " has " + attributes(t, filepath.Join(dir, "many/names"))
	return all
}

// Promise: Volumes and images: A backup contains all of a volume: hard and symbolic links, pipes, owners, times,
// attributes and holes.
// How: One archive format, equal to the byte for equal content; plain directories, btrfs and tar(1) read it.
// Also: TestOthersReadTheArchive, TestRoundTripsPreserveTheContent.
func TestArchiveIsCompleteAndDeterministic(t *testing.T) {
	from := t.TempDir()
	furnishAll(t, from)
	archive := packed(t, from)
	if !bytes.Equal(archive, packed(t, from)) {
		t.Error("another archive of the same tree is another one")
	}
	size, err := packedSize(t.Context(), from)
	if err != nil || size != int64(len(archive)) || size > 1<<20 {
		t.Errorf("archive has %d bytes, packedSize = %d, %v", len(archive), size, err)
	}
	to := unpackTo(t, archive)
	if diff := cmp.Diff(shape(t, from), shape(t, to)); diff != "" {
		t.Errorf("unpacked tree differs:\n%s", diff)
	}
}

func TestOthersReadTheArchive(t *testing.T) {
	program, err := exec.LookPath("tar")
	if err != nil {
		t.Skip(err)
	}
	from, to := t.TempDir(), t.TempDir()
	furnishAll(t, from)
	c := exec.Command(program, "--xattrs", "-xpf", "-", "-C", to)
	c.Stdin = bytes.NewReader(packed(t, from))
	if said, err := c.CombinedOutput(); err != nil || len(said) > 0 {
		t.Fatalf("%v: %s", err, said)
	}
	if diff := cmp.Diff(shape(t, from), shape(t, to)); diff != "" {
		t.Errorf("tar(1) reads something else:\n%s", diff)
	}
}

func TestSmallHolesAreWrittenAsZeros(t *testing.T) {
	var x extents
	add := func(e extent) {
		x.add(e)
		if cap(x.all) > 8*maxExtents {
			t.Fatalf("it holds %d extents", cap(x.all))
		}
	}
	const few, many = 100, 10 * maxExtents
	var want []extent
	for i := range int64(few) { // large holes stay
		e := extent{i << 30, 4 << 10}
		want = append(want, e)
		add(e)
	}
	for i := range int64(many) {
		add(extent{few<<30 + i*(16<<10), 4 << 10})
	}
	add(extent{1 << 40, 4 << 10})
	x.merge()
	want = append(want, extent{few << 30, (many-1)*(16<<10) + 4<<10}, extent{1 << 40, 4 << 10})
	if diff := cmp.Diff(want, x.all, cmp.AllowUnexported(extent{})); diff != "" {
		t.Error(diff)
	}
}

func TestCopiesSkipSocketsAndRefuseDevices(t *testing.T) {
	b := plain(t)
	data := b.must("volume.create", "root", map[string]any{"size_gib": int64(1)})["path"].(string)
	short := testenv.Home(t, "s") // paths of sockets must be short
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Rename(filepath.Join(short, "s"), filepath.Join(data, "socket")); err != nil {
		t.Skipf("the temporary directory is on two disks: %v", err)
	}
	b.must("volume.snapshot", "root", before)
	b.must("volume.send", "root", backup)
	b.must("volume.restore", "root", before)
	if _, err := os.Lstat(filepath.Join(data, "socket")); err == nil {
		t.Error("a copy has the socket")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a device")
	}
	if err := syscall.Mknod(filepath.Join(data, "null"), syscall.S_IFCHR|0o600, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	for operation, args := range map[string]map[string]any{"volume.snapshot": {"snapshot": "b"}, "volume.send": {"backup": "b"}} {
		if _, err := b.do(operation, "root", args); writ.CodeOf(err) != writ.CodeDriverFailed || !strings.Contains(err.Error(), "null") {
			t.Errorf("%s of a volume with a device: %v", operation, err)
		}
	}
}

// hostile returns archives that try to write to forbidden places.
func hostile() map[string][]byte {
	file := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Mode: 0o644}
	}
	all := map[string][]byte{"no tar at all": []byte(strings.Repeat("x", 1024))}
	for name, headers := range map[string][]*tar.Header{
		"an absolute path":      {file("/etc/escaped")},
		"dots":                  {file("../escaped")},
		"dots inside":           {file("a/../../escaped")},
		"through a link":        {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../../.."}, file("out/escaped")},
		"through a full link":   {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/tmp"}, file("out/escaped")},
		"a pipe through a link": {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../../.."}, {Typeflag: tar.TypeFifo, Name: "out/escaped"}},
		"over itself":           {file("a"), file("a")},
		"over a link":           {{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "../escaped"}, file("a")},
		"a hard link":           {{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}},
		"a link that climbs":    {{Typeflag: tar.TypeLink, Name: "a", Linkname: "../../../../etc/passwd"}},
		"a link through a link": {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "/etc"}, {Typeflag: tar.TypeLink, Name: "a", Linkname: "out/passwd"}},
		"a device":              {{Typeflag: tar.TypeChar, Name: "a", Devmajor: 1, Devminor: 3}},
		"a directory as a file": {{Typeflag: tar.TypeDir, Name: "a/"}, file("a")},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(h); err != nil {
				panic(err)
			}
			if h.Size > 0 {
				_, _ = w.Write([]byte("x"))
			}
		}
		_ = w.Close()
		all[name] = b.Bytes()
	}
	all["an end that is missing"] = all["over itself"][:1024] // its first file, complete
	return all
}

// receiveBytes receives an archive and checks that no file was written outside the volume.
func receiveBytes(b *fixture, archive []byte) error {
	b.Helper()
	path := filepath.Join(b.Dir, "backups", string(saltest.Resource(writ.KindVolume, "").Project), "nightly.tar")
	writeFile(b, path, string(archive))
	_, err := b.do("volume.receive", "root", map[string]any{"backup": "nightly", "size_gib": int64(1)})
	inside := strings.TrimPrefix(b.Trees.Path(saltest.Resource(writ.KindVolume, "root").HostName()), b.host)
	for name := range tree(b, b.host) {
		if strings.HasSuffix(name, "escaped") && !strings.HasPrefix(name, inside) {
			b.Errorf("it wrote %s", name)
		}
	}
	return err
}

// Promise: Volumes and images: The content of a backup never writes outside its volume.
// How: Names are opened below one directory only.
func TestReceiveNeverWritesOutside(t *testing.T) {
	for name, archive := range hostile() {
		b := plain(t)
		if err := receiveBytes(b, archive); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Errorf("%s: %v, want %s", name, err, writ.CodeArgumentsInvalid)
		}
		if all, err := b.List(t.Context()); len(all) > 0 || err != nil {
			t.Errorf("%s: it left %v, %v", name, all, err)
		}
	}
}

func FuzzReceive(f *testing.F) {
	for _, archive := range hostile() {
		f.Add(archive)
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		err := receiveBytes(plain(t), archive)
		if code := writ.CodeOf(err); code == writ.CodeInternal {
			t.Errorf("%v has no code", err)
		}
	})
}

func TestPackingEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	furnish(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pack(ctx, io.Discard, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// The test compares a clone of a snapshot with the volume: whatever an archive keeps, they keep too.
//
// Promise: Volumes and images: Snapshots and clones contain all that a backup contains, also of plain directories.
// How: Directories, files, links and pipes are copied with their owners, times and attributes.
func TestSnapshotsAndClonesAreComplete(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(t testing.TB) *fixture) {
		b := fresh(t)
		dir := b.must("volume.create", "source", map[string]any{"size_gib": int64(16)})["path"].(string)
		furnishAll(t, dir)
		want := shape(t, dir)
		b.must("volume.snapshot", "source", before)
		clone := b.must("volume.clone", "clone", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "source", UID: "u1"}, "snapshot": "before"})
		if diff := cmp.Diff(want, shape(t, clone["path"].(string))); diff != "" {
			t.Errorf("the clone (+) differs:\n%s", diff)
		}
	})
}
