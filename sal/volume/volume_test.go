package volume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/btrfs/btrfstest"
	"writ/sal/catalog"
	"writ/sal/directory"
	"writ/sal/saltest"
)

var (
	spec   = map[string]any{"size_gib": int64(1), "image": "debian-12"}
	before = map[string]any{"snapshot": "before"}
	backup = map[string]any{"backup": "nightly"}
)

// with returns base with one changed field.
func with(base map[string]any, field string, v any) map[string]any {
	m := maps.Clone(base)
	m[field] = v
	return m
}

// prepare creates images as an image driver would.
func prepare(t testing.TB, host string) {
	t.Helper()
	for _, name := range []string{"debian-12", "debian-13"} {
		path := imagePath(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		sal.InPlace(filepath.Dir(path)) // as image drivers do
		writeFile(t, path, "a disk: "+name)
	}
}

func imagePath(host, name string) string {
	return filepath.Join(host, "images", saltest.Resource(writ.KindImage, name).HostName())
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

// kind is a kind of trees for volumes.
type kind struct {
	hosts func(t testing.TB) saltest.Hosts
	trees func(dir string, step func(string)) sal.Trees
}

var kinds = map[string]kind{
	"directory": {
		hosts: func(testing.TB) saltest.Hosts { return nil },
		trees: func(dir string, step func(string)) sal.Trees { return &directory.Trees{Dir: dir, Step: step} },
	},
	"btrfs": {
		hosts: func(t testing.TB) saltest.Hosts { return btrfstest.NewHosts(t) },
		trees: func(dir string, step func(string)) sal.Trees { return btrfs.New(btrfs.Config{Dir: dir, Step: step}) },
	},
}

func (k kind) open(host string, step func(string)) *Driver {
	return &Driver{
		Dir: filepath.Join(host, "volumes"), Trees: k.trees(filepath.Join(host, "pool"), step), Images: saltest.Images(filepath.Join(host, "images")), Step: step,
	}
}

// Promise: Volumes and images: A volume is either complete or absent, and its deletion leaves no trace, with a crash
// at any point.
// How: A record precedes the first change; subvolumes are exchanged atomically.
func TestConformance(t *testing.T) {
	source := saltest.Other{Name: "source", Steps: []saltest.Step{
		{Operation: "volume.create", Args: spec},
		{Operation: "volume.snapshot", Args: before},
	}}
	empty := saltest.Other{Name: "source", Steps: []saltest.Step{
		{Operation: "volume.create", Args: map[string]any{"size_gib": int64(1)}},
		{Operation: "volume.send", Args: backup},
	}}
	from := map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before"}
	suites := map[string]saltest.Suite{
		"create": {
			Make:      saltest.Step{Operation: "volume.create", Args: map[string]any{"size_gib": int64(1)}},
			Mutable:   map[string]any{"size_gib": int64(2)},
			Immutable: spec,
			Steps: []saltest.Step{
				{Operation: "volume.snapshot", Args: before},
				{Operation: "volume.resize", Args: map[string]any{"size_gib": int64(3)}},
				{Operation: "volume.restore", Args: before},
				{Operation: "volume.delete_snapshot", Args: before},
				{Operation: "volume.send", Args: backup},
				{Operation: "volume.discard", Args: backup},
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
		"copy from elsewhere": {
			Make:      saltest.Step{Operation: "volume.copy", Args: with(from, "size_gib", int64(1))},
			Mutable:   with(from, "size_gib", int64(2)),
			Immutable: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "size_gib": int64(1)},
		},
		"receive": {
			Others:    []saltest.Other{empty},
			Make:      saltest.Step{Operation: "volume.receive", Args: with(backup, "size_gib", int64(1))},
			Mutable:   with(backup, "size_gib", int64(2)),
			Immutable: map[string]any{"backup": "weekly", "size_gib": int64(1)},
		},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := k.hosts(t)
			for name, suite := range suites {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					suite.Hosts, suite.Prepare = hosts, prepare
					suite.Open = func(t testing.TB, host string, step func(string)) sal.Driver {
						d := k.open(host, step)
						if name == "copy from elsewhere" {
							return &distant{d, elsewhere(t)}
						}
						return d
					}
					saltest.Run(t, suite)
				})
			}
		})
	}
}

// fixture is a driver on a separate host.
type fixture struct {
	testing.TB
	*Driver
	kind kind
	host string
}

// onEach runs a test with each kind of trees. fresh creates another host of the same kind.
func onEach(t *testing.T, test func(t *testing.T, fresh func(t testing.TB) *fixture)) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := k.hosts(t)
			test(t, func(t testing.TB) *fixture {
				host := ""
				if hosts == nil {
					host = t.TempDir()
				} else {
					host = hosts.New(t)
				}
				prepare(t, host)
				b := &fixture{TB: t, kind: k, host: host}
				b.restart(nil)
				return b
			})
		})
	}
}

// plain returns a fixture on plain directories.
func plain(t testing.TB) *fixture {
	b := &fixture{TB: t, kind: kinds["directory"], host: t.TempDir()}
	prepare(t, b.host)
	b.restart(nil)
	return b
}

func (b *fixture) restart(step func(string)) {
	users := []sal.Users(nil)
	if b.Driver != nil {
		users = b.Users
	}
	b.Driver = b.kind.open(b.host, step)
	b.Users = users
}

// do executes an operation on a volume of the suite's project, with the UID "u1".
func (b *fixture) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	return b.Do(b.Context(), b.request(operation, name, args))
}

func (b *fixture) request(operation, name string, args map[string]any) sal.Request {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("unknown operation %s", operation)
	}
	decoded, err := o.Decode(args)
	if err != nil {
		b.Fatal(err)
	}
	return sal.Request{Operation: o, Resource: saltest.Resource(writ.KindVolume, name), UID: "u1", Args: decoded, Key: "k", Progress: func(string) {}}
}

func (b *fixture) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	o, err := b.do(operation, name, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return o.Values
}

// stopAt stops the driver at step number stop of do, and reports whether there was such a step. passed lists the steps
// before it.
func (b *fixture) stopAt(stop int, do func()) (passed []string, stopped bool) {
	type crash struct{}
	b.restart(func(name string) {
		if len(passed) == stop {
			panic(crash{})
		}
		passed = append(passed, name)
	})
	defer func() {
		b.restart(nil)
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

// tree describes every entry of a directory: mode, time, size, and the start of its content or its link target.
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
			start, err := startOf(name)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %s %d %s", info.ModTime().UTC().Format(time.RFC3339Nano), info.Size(), start)
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

// startOf returns the start of a file: some files are disks.
func startOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	start := make([]byte, 4096)
	n, err := f.Read(start)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimRight(string(start[:n]), "\x00"), err
}

// furnish fills a volume with everything that a volume may hold on any disk.
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

func TestRoundTripsPreserveTheContent(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
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
	})
}

func TestEachKindReadsBackupsOfTheOther(t *testing.T) {
	t.Parallel()
	bounded := &fixture{TB: t, kind: kinds["btrfs"], host: kinds["btrfs"].hosts(t).New(t)}
	prepare(t, bounded.host)
	bounded.restart(nil)
	for name, way := range map[string][2]*fixture{"bounded": {plain(t), bounded}, "plain": {bounded, plain(t)}} {
		from, to, backup := way[0], way[1], map[string]any{"backup": "to-" + name}
		data := from.must("volume.create", "root", spec)["path"].(string)
		furnish(t, data)
		sent := from.must("volume.send", "root", backup)
		carry(t, to, from, "to-"+name)
		received := to.must("volume.receive", "copy", with(with(backup, "size_gib", int64(1)), "sha256", sent["sha256"]))["path"].(string)
		if diff := cmp.Diff(tree(t, data), tree(t, received)); diff != "" {
			t.Error(diff)
		}
	}
}

// carry copies a backup to another host, as an operator does.
func carry(t *testing.T, to, from *fixture, name string) {
	t.Helper()
	request := from.request("volume.get", "root", nil)
	text, err := os.ReadFile(from.job(request).backups.path(name))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to.job(request).backups.path(name), string(text))
}

// disk returns the start and the size of the disk in a volume.
func (b *fixture) disk(dir any) (text string, size int64) {
	b.Helper()
	f, err := os.Open(filepath.Join(dir.(string), sal.DiskName))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	start := make([]byte, 32)
	n, _ := f.Read(start)
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimRight(string(start[:n]), "\x00"), info.Size()
}

func TestDiskHasTheSizeOfItsVolume(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		root := b.must("volume.create", "root", spec)["path"]
		if text, size := b.disk(root); text != "a disk: debian-12" || size != gib {
			t.Fatalf("the disk has %q and %d bytes", text, size)
		}
		b.must("volume.snapshot", "root", before)
		sent := b.must("volume.send", "root", with(backup, "snapshot", "before"))
		f, err := os.OpenFile(filepath.Join(root.(string), sal.DiskName), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("another"), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b.must("volume.resize", "root", map[string]any{"size_gib": int64(2)})
		if text, size := b.disk(root); text != "another debian-12" || size != 2*gib {
			t.Errorf("grown it has %q and %d bytes", text, size)
		}
		b.must("volume.restore", "root", before)
		from := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
		for way, v := range map[string]map[string]any{
			"restore":          {"path": root},
			"clone":            b.must("volume.clone", "clone", map[string]any{"from": from}),
			"send and receive": b.must("volume.receive", "received", map[string]any{"backup": "nightly", "size_gib": int64(2), "sha256": sent["sha256"]}),
		} {
			if text, size := b.disk(v["path"]); text != "a disk: debian-12" || size != 2*gib {
				t.Errorf("%s: the disk has %q and %d bytes", way, text, size)
			}
			if b.kind.writesInPlace() && !inPlace(t, filepath.Join(v["path"].(string), sal.DiskName)) {
				t.Errorf("%s: the disk is not written in place", way)
			}
		}
	})
}

func TestInterruptedRestoreIsNeverPartial(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		for stop, stopped := 0, true; stopped; stop++ {
			b := fresh(t)
			data := b.must("volume.create", "root", spec)["path"].(string)
			writeFile(t, filepath.Join(data, "a"), "old")
			b.must("volume.snapshot", "root", before)
			old := tree(t, data)
			writeFile(t, filepath.Join(data, "a"), "new")
			writeFile(t, filepath.Join(data, "b"), "new")
			_, stopped = b.stopAt(stop, func() { b.must("volume.restore", "root", before) })
			b.must("volume.snapshot", "root", map[string]any{"snapshot": "after"}) // any operation finishes an interrupted one
			got := tree(t, data)
			delete(got, "")
			delete(old, "")
			if _, isNew := got["/b"]; isNew && stopped {
				continue
			}
			if diff := cmp.Diff(old, got); diff != "" {
				t.Fatalf("stopped at step %d it is neither old nor new:\n%s", stop, diff)
			}
		}
	})
}

// Promise: Networks and containers: An interrupted backup of a volume is completed by the next call or leaves no
// file.
// How: The archive and its temporary file share one record until completion.
func TestSendCompletesAfterAnyInterruption(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		for stop, stopped := 0, true; stopped; stop++ {
			b := fresh(t)
			kept := func() {
				t.Helper()
				if drift, err := b.Keep(t.Context(), saltest.Resource(writ.KindVolume, "root")); len(drift) > 0 || err != nil {
					t.Errorf("stopped at step %d: drift = %v, %v", stop, drift, err)
				}
			}
			files := func() (n int) {
				for _, what := range tree(t, b.host) {
					if !strings.HasPrefix(what, "d") {
						n++
					}
				}
				return n
			}
			b.must("volume.create", "root", spec)
			before := files()
			_, stopped = b.stopAt(stop, func() { b.must("volume.send", "root", backup) })
			if stop%2 == 0 { // as at the start of a runner, before or after the job resumes
				kept()
			}
			if !stopped {
				continue
			}
			sent := b.must("volume.send", "root", backup)
			kept()
			archives, _ := filepath.Glob(filepath.Join(b.Dir, "backups", "*", "*"))
			if now := files(); len(archives) != 1 || now != before+1 {
				t.Fatalf("stopped at step %d: archives = %v, %d files, want %d and one more", stop, archives, now, before)
			}
			text, err := os.ReadFile(archives[0])
			if sum := fmt.Sprintf("%x", sha256.Sum256(text)); sent["sha256"] != sum || err != nil {
				t.Errorf("stopped at step %d: sum = %s, result = %v, %v", stop, sum, sent["sha256"], err)
			}
		}
	})
}

func TestDeleteLeavesNoFiles(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		furnish(t, b.must("volume.create", "root", spec)["path"].(string))
		b.must("volume.snapshot", "root", before)
		b.must("volume.restore", "root", before)
		b.must("volume.delete", "root", nil)
		for _, dir := range []string{b.Dir, filepath.Join(b.host, "pool")} {
			left := tree(t, dir)
			maps.DeleteFunc(left, func(name, what string) bool { return strings.HasPrefix(what, "d") && strings.Count(name, "/") < 2 })
			if len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		}
	})
}

// An interrupted delete must never let the volume pass as complete.
func TestTheNextOperationFinishesADelete(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		for stop, stopped := 0, true; stopped; stop++ {
			b := fresh(t)
			furnish(t, b.must("volume.create", "root", spec)["path"].(string))
			var passed []string
			passed, stopped = b.stopAt(stop, func() { b.must("volume.delete", "root", nil) })
			renamed := slices.DeleteFunc(slices.Clone(passed), func(name string) bool { return name != "rename record" })
			begun := len(renamed) > 1 // the first rename closes the volume, the second starts the deletion
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
				t.Errorf("stopped after %q, then repeated: %s, want %s, with %v", passed, o.Change, want, content)
			}
		}
	})
}

// user uses one volume.
type user struct {
	volume writ.UID
	sal.User
}

func (u user) Users(_ context.Context, volume writ.UID) ([]sal.User, error) {
	if volume != u.volume {
		return nil, nil
	}
	return []sal.User{u.User}, nil
}

// Promise: Volumes and images: A volume in use is not deleted, and not restored before its machine or container is
// stopped, also with concurrent requests.
// How: The driver marks it as closed, then asks every possible user; a new user records its use, then checks the
// mark.
// Also: TestVolumeInDeletionIsBusy, TestVanishingVolumeIsForNoMachine, TestVanishingVolumeIsForNoContainer,
// TestVolumeIsForOneMachineAtATime, TestContainerStateSurvivesLossAndPause.
func TestAVolumeInUseIsNotDeleted(t *testing.T) {
	b := plain(t)
	dir := b.must("volume.create", "root", spec)["path"].(string)
	b.must("volume.snapshot", "root", before)
	writeFile(t, filepath.Join(dir, "file"), "since then")
	web := user{"u1", sal.User{Owner: sal.Owner{Resource: saltest.Resource(writ.KindMachine, "web")}, Running: true}}
	b.Users = []sal.Users{user{}, web}
	refuses := func(operation string, args map[string]any) {
		t.Helper()
		_, err := b.do(operation, "root", args)
		if writ.CodeOf(err) != writ.CodeResourceBusy || !strings.Contains(err.Error(), "machine web") || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v", operation, err)
		}
	}
	refuses("volume.delete", nil)
	refuses("volume.restore", before)
	if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "since then" {
		t.Errorf("a refused operation took effect: %q, %v", text, err)
	}
	web.Running = false
	b.Users = []sal.Users{web}
	refuses("volume.delete", nil)
	b.must("volume.restore", "root", before)
	b.Users = nil
	b.must("volume.delete", "root", nil)
}

// late starts to use a volume after it was asked for its users, as a concurrent resource may: it records its use and
// then looks up the volume.
type late struct {
	*fixture
	taken error // error of the lookup
}

func (l *late) Users(ctx context.Context, _ writ.UID) ([]sal.User, error) {
	_, l.taken = l.Volume(ctx, saltest.Resource(writ.KindVolume, "root").Project, writ.Ref{Kind: writ.KindVolume, Name: "root"})
	return nil, nil
}

func TestVolumeInDeletionIsBusy(t *testing.T) {
	b := plain(t)
	b.must("volume.create", "root", spec)
	b.must("volume.snapshot", "root", before)
	comes := &late{fixture: b}
	b.Users = []sal.Users{comes}
	b.must("volume.restore", "root", before)
	if writ.CodeOf(comes.taken) != writ.CodeResourceBusy {
		t.Errorf("use during a restore: %v, want RESOURCE_BUSY", comes.taken)
	}
	if _, err := comes.Users(t.Context(), ""); err != nil || comes.taken != nil {
		t.Errorf("use after a restore: %v, %v", comes.taken, err)
	}
	b.must("volume.delete", "root", nil)
	if writ.CodeOf(comes.taken) != writ.CodeResourceBusy {
		t.Errorf("use during a delete: %v, want RESOURCE_BUSY", comes.taken)
	}
}

func TestVolumeRejectsInvalidRequests(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		b.must("volume.create", "root", with(spec, "size_gib", int64(10)))
		b.must("volume.send", "root", backup)
		big := imagePath(b.host, "big")
		writeFile(t, big, "")
		if err := os.Truncate(big, gib+1); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"packed": "\x1f\x8b\x08...", "vmdk": "KDMV...", "page": "<!doctype html><title>Sign in</title>", "empty": ""} {
			writeFile(t, imagePath(b.host, name), text)
		}
		root := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
		trees, err := b.Trees.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			operation, name string
			args            map[string]any
			code            writ.Code
		}{
			{"volume.create", "a", with(spec, "image", "none"), writ.CodeResourceUnknown},
			{"volume.create", "a", with(spec, "image", "big"), writ.CodeQuotaExceeded},
			{"volume.create", "a", with(spec, "image", "packed"), writ.CodeArgumentsInvalid},
			{"volume.create", "a", with(spec, "image", "vmdk"), writ.CodeArgumentsInvalid},
			{"volume.create", "a", with(spec, "image", "page"), writ.CodeArgumentsInvalid},
			{"volume.create", "a", with(spec, "image", "empty"), writ.CodeArgumentsInvalid},
			{"volume.create", "root", with(spec, "size_gib", int64(5)), writ.CodeImmutableField},
			{"volume.resize", "root", map[string]any{"size_gib": int64(5)}, writ.CodeImmutableField},
			{"volume.restore", "root", before, writ.CodeResourceUnknown},
			{"volume.send", "root", backup, writ.CodeResourceConflict},
			{"volume.send", "root", map[string]any{"backup": "b", "snapshot": "none"}, writ.CodeResourceUnknown},
			{"volume.clone", "a", map[string]any{"from": root, "size_gib": int64(5)}, writ.CodeQuotaExceeded},
			{"volume.clone", "a", map[string]any{"from": root, "snapshot": "none"}, writ.CodeResourceUnknown},
			{"volume.clone", "a", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u2"}}, writ.CodeResourceConflict},
			{"volume.clone", "a", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "none", UID: "u2"}}, writ.CodeResourceUnknown},
			{"volume.receive", "a", map[string]any{"backup": "none", "size_gib": int64(10)}, writ.CodeResourceUnknown},
			{"volume.receive", "a", map[string]any{"backup": "nightly", "size_gib": int64(1)}, writ.CodeQuotaExceeded},
			{"volume.receive", "a", map[string]any{"backup": "nightly", "size_gib": int64(10), "sha256": strings.Repeat("0a", 32)}, writ.CodeChecksumMismatch},
		} {
			if _, err := b.do(tt.operation, tt.name, tt.args); writ.CodeOf(err) != tt.code {
				t.Errorf("%s %v: %v, want %s", tt.operation, tt.args, err, tt.code)
			}
		}
		if all, err := b.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("volumes after a refusal = %v, %v", all, err)
		}
		if left, err := b.Trees.List(t.Context()); err != nil || !slices.Equal(left, trees) {
			t.Errorf("trees after a refusal = %v, want %v, %v", left, trees, err)
		}
	})
}

// A machine would see an exceeded share as a failing disk.
//
// Promise: Volumes and images: The sizes of a project's volumes and databases never exceed `writ runner
// --project-disk` on a node, also for concurrent requests.
// How: Tree limits are summed, including those in creation; excess is `QUOTA_EXCEEDED` with the numbers.
// Also: TestSizesOfAProjectAreLimited, TestConcurrentSizesAreAddedUp.
func TestSizesBeyondTheProjectShareAreRefused(t *testing.T) {
	t.Parallel()
	b := &fixture{TB: t, kind: kinds["btrfs"], host: kinds["btrfs"].hosts(t).New(t)}
	prepare(t, b.host)
	share := int64(3 << 30)
	b.kind.trees = func(dir string, step func(string)) sal.Trees {
		return btrfs.New(btrfs.Config{Dir: dir, Step: step, ProjectBytes: func(writ.ProjectID) int64 { return share }})
	}
	b.restart(nil)
	b.must("volume.create", "root", map[string]any{"size_gib": int64(2)})
	b.must("volume.send", "root", backup)
	var done []string
	b.restart(func(name string) { done = append(done, name) })
	clone := map[string]any{"from": map[string]any{"kind": "volume", "name": "root", "uid": "u1"}}
	for _, tt := range []struct {
		operation, name string
		args            map[string]any
		numbers         []string
	}{
		{"volume.create", "more", map[string]any{"size_gib": int64(2)}, []string{"3 GiB", "it uses 2 GiB", "2 GiB"}},
		{"volume.create", "root", map[string]any{"size_gib": int64(4)}, []string{"3 GiB", "it uses 0 GiB", "4 GiB"}},
		{"volume.resize", "root", map[string]any{"size_gib": int64(4)}, []string{"3 GiB", "it uses 0 GiB", "4 GiB"}},
		{"volume.clone", "more", clone, []string{"3 GiB", "it uses 2 GiB", "2 GiB"}},
		{"volume.copy", "more", with(clone, "size_gib", int64(2)), []string{"3 GiB", "2 GiB"}},
		{"volume.receive", "more", with(backup, "size_gib", int64(2)), []string{"3 GiB", "2 GiB"}},
	} {
		_, err := b.do(tt.operation, tt.name, tt.args)
		if writ.CodeOf(err) != writ.CodeQuotaExceeded || !strings.Contains(writ.AsError(err).Hint, "--project-disk") {
			t.Errorf("%s %s: %v", tt.operation, tt.name, err)
		}
		for _, n := range tt.numbers {
			if err != nil && !strings.Contains(err.Error(), n) {
				t.Errorf("%s %s: no %q in %v", tt.operation, tt.name, n, err)
			}
		}
	}
	if len(done) > 0 {
		t.Errorf("they did %v", done)
	}
	b.must("volume.create", "more", map[string]any{"size_gib": int64(1)})
	share = 4 << 30
	b.must("volume.resize", "more", map[string]any{"size_gib": int64(2)})
}

func TestKeepReportsMissingContent(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		b.must("volume.create", "root", spec)
		root := saltest.Resource(writ.KindVolume, "root")
		if drift, err := b.Keep(t.Context(), root); err != nil || len(drift) > 0 {
			t.Errorf("drift = %+v, %v", drift, err)
		}
		stray := writ.ResourceID{Kind: writ.KindVolume, Name: "nobody's"}.HostName()
		for _, name := range []string{stray, "images"} { // the latter belongs to another driver
			if _, err := b.Trees.Make(t.Context(), name, sal.Bound{}); err != nil {
				t.Fatal(err)
			}
		}
		orphans, err := b.Orphans(t.Context())
		if diff := cmp.Diff([]sal.Orphan{{Kind: "tree", Name: b.Trees.Path(stray), Of: stray, Remedy: b.Trees.Remedy(stray)}}, orphans); diff != "" || err != nil {
			t.Errorf("the orphans: %v\n%s", err, diff)
		}
		if err := b.Trees.Snapshot(t.Context(), stray, "s"); err != nil {
			t.Fatal(err)
		}
		testenv.Empties(t, saltest.Remedies(t, b))
		if err := b.Trees.Remove(t.Context(), root.HostName()); err != nil {
			t.Fatal(err)
		}
		drift, err := b.Keep(t.Context(), root)
		if err != nil || len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "gone") {
			t.Errorf("drift without content = %+v, %v", drift, err)
		}
		b.must("volume.delete", "root", nil)
	})
}

func TestOtherDriversFindTheVolume(t *testing.T) {
	b := plain(t)
	dir := b.must("volume.create", "root", spec)["path"]
	project := saltest.Resource("", "").Project
	v, err := b.Volume(t.Context(), project, writ.Ref{Name: "root"})
	if want := (sal.Volume{UID: "u1", Dir: dir.(string), SizeGiB: 1}); v != want || err != nil {
		t.Errorf("they find %+v, want %+v, %v", v, want, err)
	}
	for ref, want := range map[writ.Ref]writ.Code{{Name: "none"}: writ.CodeResourceUnknown, {Name: "root", UID: "u2"}: writ.CodeResourceConflict} {
		if _, err := b.Volume(t.Context(), project, ref); writ.CodeOf(err) != want {
			t.Errorf("%v: %v, want %s", ref, err, want)
		}
	}
	if u, err := b.Usage(t.Context(), saltest.Resource(writ.KindVolume, "root")); u.DiskGiB != 1 || err != nil {
		t.Errorf("it uses %+v, %v", u, err)
	}
}

func TestCopyReportsProgressAndStopsWithContext(t *testing.T) {
	b := plain(t)
	big := imagePath(b.host, "big")
	writeFile(t, big, strings.Repeat("writ", 160<<18))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := b.request("volume.create", "root", with(spec, "image", "big"))
	var told []string
	request.Progress = func(text string) {
		if told = append(told, text); len(told) == 2 {
			cancel()
		}
	}
	if shares(t, b.host) {
		t.Skip("the disk of the test shares blocks: copies take no time")
	}
	if _, err := b.Do(ctx, request); writ.CodeOf(err) != writ.CodeInternal || ctx.Err() == nil {
		t.Errorf("it ended with %v", err)
	}
	if want := []string{"64 MiB of 160 MiB copied", "128 MiB of 160 MiB copied"}; !slices.Equal(told, want) {
		t.Errorf("progress = %q, want %q", told, want)
	}
	if seen, err := b.Observe(t.Context(), request.Resource); seen.Exists || err != nil {
		t.Errorf("Observe = %+v, %v", seen, err)
	}
}
