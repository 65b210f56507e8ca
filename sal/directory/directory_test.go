package directory

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

var (
	spec   = map[string]any{"size_gib": int64(1), "image": "debian-12"}
	before = map[string]any{"snapshot": "before"}
	backup = map[string]any{"backup": "nightly"}
)

// with makes arguments of a base and a change.
func with(base map[string]any, field string, v any) map[string]any {
	m := maps.Clone(base)
	m[field] = v
	return m
}

// prepare leaves an image where an image driver would.
func prepare(t testing.TB, host string) {
	writeFile(t, filepath.Join(host, "images", saltest.Resource(writ.KindImage, "debian-12").HostName()), "a disk")
	writeFile(t, filepath.Join(host, "images", saltest.Resource(writ.KindImage, "debian-13").HostName()), "another disk")
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func TestExam(t *testing.T) {
	source := saltest.Other{Name: "source", Steps: []saltest.Step{
		{Operation: "volume.create", Args: spec},
		{Operation: "volume.snapshot", Args: before},
		{Operation: "volume.send", Args: backup},
	}}
	from := map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before"}
	for name, exam := range map[string]saltest.Exam{
		"create": {
			Make:      saltest.Step{Operation: "volume.create", Args: map[string]any{"size_gib": int64(1)}},
			Mutable:   map[string]any{"size_gib": int64(2)},
			Immutable: spec,
			Steps: []saltest.Step{
				{Operation: "volume.snapshot", Args: before},
				{Operation: "volume.resize", Args: map[string]any{"size_gib": int64(3)}},
				{Operation: "volume.restore", Args: before},
				{Operation: "volume.send", Args: backup},
			},
		},
		"create of an image": {
			Make:      saltest.Step{Operation: "volume.create", Args: spec},
			Mutable:   with(spec, "size_gib", int64(2)),
			Immutable: with(spec, "image", "debian-13"),
		},
		"clone": {
			Others:    []saltest.Other{source},
			Make:      saltest.Step{Operation: "volume.clone", Args: from},
			Mutable:   with(from, "size_gib", int64(2)),
			Immutable: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source")},
		},
		"receive": {
			Others:    []saltest.Other{source},
			Make:      saltest.Step{Operation: "volume.receive", Args: with(backup, "size_gib", int64(1))},
			Mutable:   with(backup, "size_gib", int64(2)),
			Immutable: map[string]any{"backup": "weekly", "size_gib": int64(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exam.Prepare = prepare
			exam.Open = func(_ testing.TB, host string, step func(string)) sal.Driver {
				return &Driver{Dir: filepath.Join(host, "volumes"), Images: saltest.Images(filepath.Join(host, "images")), Step: step}
			}
			saltest.Run(t, exam)
		})
	}
}

// bench is a driver on a directory of its own.
type bench struct {
	testing.TB
	Driver
}

func newBench(t testing.TB) *bench {
	host := t.TempDir()
	prepare(t, host)
	return &bench{t, Driver{Dir: filepath.Join(host, "volumes"), Images: saltest.Images(filepath.Join(host, "images"))}}
}

// do carries out an operation on a volume of the exam's project, with the UID "u1".
func (b *bench) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("there is no %s", operation)
	}
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.Do(b.Context(), sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindVolume, name), UID: "u1", Args: decoded, Key: "k", Progress: func(string) {},
	})
}

func (b *bench) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	o, err := b.do(operation, name, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return o.Values
}

// stopAt stops the driver at a step of what do does, and reports whether there was such a step. Passed are the steps before it.
func (b *bench) stopAt(stop int, do func()) (passed []string, stopped bool) {
	type crash struct{}
	b.Step = func(name string) {
		if len(passed) == stop {
			panic(crash{})
		}
		passed = append(passed, name)
	}
	defer func() {
		b.Step = nil
		if r := recover(); r != nil {
			if _, ours := r.(crash); !ours {
				panic(r)
			}
			stopped = true
		}
	}()
	do()
	return passed, false
}

// tree is everything in a directory: modes, times and content or link target.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + info.ModTime().UTC().Format(time.RFC3339Nano) + " " + string(content)
		case fs.ModeDir:
			text += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " " + target
		}
		all[strings.TrimPrefix(name, dir)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// furnish puts everything into a volume that a volume may hold.
func furnish(t testing.TB, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "etc/nested/file"), "text")
	writeFile(t, filepath.Join(dir, "secret"), "")
	for _, err := range []error{
		os.Symlink("etc/nested/file", filepath.Join(dir, "link")),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link-outside")),
		os.Mkdir(filepath.Join(dir, "closed"), 0o500),
		os.Chmod(filepath.Join(dir, "secret"), 0o4711),
		os.Chtimes(filepath.Join(dir, "secret"), time.Time{}, time.Unix(1000000000, 123)),
		os.Chtimes(filepath.Join(dir, "etc"), time.Time{}, time.Unix(1100000000, 0)),
		os.Chtimes(dir, time.Time{}, time.Unix(1200000000, 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryWayAroundKeepsTheContent(t *testing.T) {
	b := newBench(t)
	data := b.must("volume.create", "root", spec)["path"].(string)
	furnish(t, data)
	want := tree(t, data)
	if want["/"+sal.DiskName] == "" {
		t.Fatal("the volume has no disk of its image")
	}

	b.must("volume.snapshot", "root", before)
	sent := b.must("volume.send", "root", with(backup, "snapshot", "before"))
	writeFile(t, filepath.Join(data, "later"), "is lost")
	if err := os.RemoveAll(filepath.Join(data, "etc")); err != nil {
		t.Fatal(err)
	}
	b.must("volume.restore", "root", before)
	from := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
	clone := b.must("volume.clone", "clone", map[string]any{"from": from})["path"].(string)
	received := b.must("volume.receive", "received", map[string]any{"backup": "nightly", "size_gib": int64(1), "sha256": sent["sha256"]})["path"].(string)
	for way, dir := range map[string]string{"restore": data, "clone": clone, "send and receive": received} {
		if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
			t.Errorf("%s:\n%s", way, diff)
		}
	}
}

func TestRestoreIsWholeWhereverItIsStopped(t *testing.T) {
	for stop, stopped := 0, true; stopped; stop++ {
		b := newBench(t)
		data := b.must("volume.create", "root", spec)["path"].(string)
		writeFile(t, filepath.Join(data, "a"), "old")
		b.must("volume.snapshot", "root", before)
		old := tree(t, data)
		writeFile(t, filepath.Join(data, "a"), "new")
		writeFile(t, filepath.Join(data, "b"), "new")
		fresh := tree(t, data)

		_, stopped = b.stopAt(stop, func() { b.must("volume.restore", "root", before) })
		b.must("volume.resize", "root", map[string]any{"size_gib": int64(2)}) // any operation finishes what was begun
		got := tree(t, data)
		if !cmp.Equal(got, old) && (!stopped || !cmp.Equal(got, fresh)) {
			t.Fatalf("stopped at step %d it is neither old nor new:\n%s", stop, cmp.Diff(old, got))
		}
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	b := newBench(t)
	empty := func() map[string]string {
		all := tree(t, b.Dir)
		maps.DeleteFunc(all, func(name, what string) bool { return strings.HasPrefix(what, "d") && strings.Count(name, "/") < 2 })
		return all
	}
	furnish(t, b.must("volume.create", "root", spec)["path"].(string))
	b.must("volume.snapshot", "root", before)
	b.must("volume.restore", "root", before)
	b.must("volume.delete", "root", nil)
	if left := empty(); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// user has one volume.
type user struct {
	volume writ.UID
	owner  sal.Owner
}

func (u user) Users(_ context.Context, volume writ.UID) ([]sal.Owner, error) {
	if volume != u.volume {
		return nil, nil
	}
	return []sal.Owner{u.owner}, nil
}

func TestVolumeThatSomebodyHasIsNotDeleted(t *testing.T) {
	b := newBench(t)
	b.must("volume.create", "root", spec)
	b.Users = []sal.Users{user{}, user{"u1", sal.Owner{Resource: saltest.Resource(writ.KindMachine, "web")}}}
	if _, err := b.do("volume.delete", "root", nil); writ.CodeOf(err) != writ.CodeResourceConflict || !strings.Contains(err.Error(), "machine web") {
		t.Errorf("it was deleted: %v", err)
	}
	b.Users = nil
	b.must("volume.delete", "root", nil)
}

// Once a volume is being deleted nothing may take it for whole.
func TestDeleteIsFinishedByWhateverComesNext(t *testing.T) {
	for stop, stopped := 0, true; stopped; stop++ {
		b := newBench(t)
		furnish(t, b.must("volume.create", "root", spec)["path"].(string))
		var passed []string
		passed, stopped = b.stopAt(stop, func() { b.must("volume.delete", "root", nil) })
		begun := slices.Contains(passed, "rename record") // it says so from here on
		o, err := b.do("volume.create", "root", spec)
		if err != nil {
			t.Fatalf("stopped after %q: %v", passed, err)
		}
		want := writ.ChangeUnchanged
		if begun {
			want = writ.ChangeCreated
		}
		content := tree(t, o.Values["path"].(string))
		if o.Change != want || content["/"+sal.DiskName] == "" || begun && len(content) != 2 {
			t.Errorf("stopped after %q, then made anew: %s, want %s, and it has %v", passed, o.Change, want, content)
		}
	}
}

func TestVolumeRefusesWhatItCannotHoldOrFind(t *testing.T) {
	b := newBench(t)
	b.must("volume.create", "root", with(spec, "size_gib", int64(10)))
	b.must("volume.send", "root", backup)
	big := filepath.Join(filepath.Dir(b.Dir), "images", saltest.Resource(writ.KindImage, "big").HostName())
	writeFile(t, big, "")
	if err := os.Truncate(big, 1<<30+1); err != nil {
		t.Fatal(err)
	}
	root := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
	for _, tt := range []struct {
		operation, name string
		args            map[string]any
		code            writ.Code
	}{
		{"volume.create", "a", with(spec, "image", "none"), writ.CodeResourceUnknown},
		{"volume.create", "a", with(spec, "image", "big"), writ.CodeQuotaExceeded},
		{"volume.create", "root", with(spec, "size_gib", int64(5)), writ.CodeImmutableField},
		{"volume.resize", "root", map[string]any{"size_gib": int64(5)}, writ.CodeImmutableField},
		{"volume.restore", "root", before, writ.CodeResourceUnknown},
		{"volume.send", "root", backup, writ.CodeResourceConflict},
		{"volume.send", "root", map[string]any{"backup": "b", "snapshot": "none"}, writ.CodeResourceUnknown},
		{"volume.clone", "a", map[string]any{"from": root, "size_gib": int64(5)}, writ.CodeQuotaExceeded},
		{"volume.clone", "a", map[string]any{"from": root, "snapshot": "none"}, writ.CodeResourceUnknown},
		{"volume.clone", "a", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u2"}}, writ.CodeResourceConflict},
		{"volume.clone", "a", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "none", UID: "u2"}}, writ.CodeResourceUnknown},
		{"volume.receive", "a", map[string]any{"backup": "none", "size_gib": int64(1)}, writ.CodeResourceUnknown},
		{"volume.receive", "a", map[string]any{"backup": "nightly", "size_gib": int64(1), "sha256": strings.Repeat("0a", 32)}, writ.CodeChecksumMismatch},
	} {
		if _, err := b.do(tt.operation, tt.name, tt.args); writ.CodeOf(err) != tt.code {
			t.Errorf("%s %v: %v, want %s", tt.operation, tt.args, err, tt.code)
		}
	}
	all, err := b.List(t.Context())
	if diff := cmp.Diff([]writ.ResourceID{saltest.Resource(writ.KindVolume, "root")}, all); diff != "" || err != nil {
		t.Errorf("what was refused has left something: %v\n%s", err, diff)
	}
}

func TestCopiesLeaveSocketsOutAndRefuseWhatTheyCannotCopy(t *testing.T) {
	b := newBench(t)
	data := b.must("volume.create", "root", map[string]any{"size_gib": int64(1)})["path"].(string)
	short, err := os.MkdirTemp("", "s") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
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

	if err := syscall.Mkfifo(filepath.Join(data, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for operation, args := range map[string]map[string]any{"volume.snapshot": {"snapshot": "b"}, "volume.send": {"backup": "b"}} {
		if _, err := b.do(operation, "root", args); writ.CodeOf(err) != writ.CodeDriverFailed || !strings.Contains(err.Error(), "pipe") {
			t.Errorf("%s of a volume with a pipe: %v", operation, err)
		}
	}
}

// hostile are archives that try to write where they must not.
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
		"over itself":           {file("a"), file("a")},
		"over a link":           {{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "../escaped"}, file("a")},
		"a hard link":           {{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}},
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
	all["an end that is missing"] = all["over itself"][:1024] // its first file, whole
	return all
}

// receiveBytes receives an archive and makes sure that nothing was written outside the volume.
func receiveBytes(b *bench, archive []byte) error {
	b.Helper()
	path := filepath.Join(b.Dir, "backups", string(saltest.Resource(writ.KindVolume, "").Project), "nightly.tar")
	writeFile(b, path, string(archive))
	_, err := b.do("volume.receive", "root", map[string]any{"backup": "nightly", "size_gib": int64(1)})
	for name := range tree(b, filepath.Dir(b.Dir)) {
		volume := filepath.Join("/", filepath.Base(b.Dir), "volumes", saltest.Resource(writ.KindVolume, "root").HostName(), "data")
		if strings.HasSuffix(name, "escaped") && !strings.HasPrefix(name, volume) {
			b.Errorf("it wrote %s", name)
		}
	}
	return err
}

func TestReceiveNeverWritesOutside(t *testing.T) {
	for name, archive := range hostile() {
		b := newBench(t)
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
		err := receiveBytes(newBench(t), archive)
		if code := writ.CodeOf(err); code == writ.CodeInternal {
			t.Errorf("%v has no code", err)
		}
	})
}

func TestCopyEndsWithTheContext(t *testing.T) {
	b := newBench(t)
	big := filepath.Join(filepath.Dir(b.Dir), "images", saltest.Resource(writ.KindImage, "big").HostName())
	writeFile(t, big, "")
	if err := os.Truncate(big, 4*chunk); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.Step = func(name string) {
		if name == "write "+sal.DiskName {
			cancel()
		}
	}
	o, _ := catalog.Lookup("volume.create")
	args, err := o.Decode(with(spec, "image", "big"))
	if err != nil {
		t.Fatal(err)
	}
	root := saltest.Resource(writ.KindVolume, "root")
	_, err = b.Do(ctx, sal.Request{Operation: o, Resource: root, UID: "u1", Args: args, Progress: func(string) {}})
	if writ.CodeOf(err) != writ.CodeInternal || ctx.Err() == nil {
		t.Errorf("it ended with %v", err)
	}
	if seen, err := b.Observe(t.Context(), root); seen.Exists || err != nil {
		t.Errorf("there is %+v, %v", seen, err)
	}
}
