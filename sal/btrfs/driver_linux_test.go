//go:build cgo

package btrfs

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/internal/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

var (
	spec   = map[string]any{"size_gib": int64(1), "image": "debian-12"}
	before = map[string]any{"snapshot": "before"}
	backup = map[string]any{"backup": "nightly"}
)

func with(base map[string]any, field string, v any) map[string]any {
	m := maps.Clone(base)
	m[field] = v
	return m
}

// prepare leaves images where an image driver would.
func prepare(t testing.TB, host string) {
	t.Helper()
	for _, name := range []string{"debian-12", "debian-13"} {
		path := filepath.Join(host, "images", saltest.Resource(writ.KindImage, name).HostName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		sal.InPlace(filepath.Dir(path)) // as image drivers ask for it
		if err := os.WriteFile(path, []byte("a disk: "+name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

func open(host string, step func(string)) *Driver {
	return &Driver{
		Dir: filepath.Join(host, "volumes"), Pool: &Pool{Dir: filepath.Join(host, "pool"), Step: step},
		Images: saltest.Images(filepath.Join(host, "images")), Step: step,
	}
}

func TestExam(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "btrfs")
	hosts := newHosts(t)
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
			exam.Hosts, exam.Prepare = hosts, prepare
			exam.Open = func(_ testing.TB, host string, step func(string)) sal.Driver { return open(host, step) }
			saltest.Run(t, exam)
		})
	}
}

// bench is a driver on a btrfs of its own.
type bench struct {
	testing.TB
	*Driver
	host string
}

func newBench(t testing.TB) *bench {
	host := newHosts(t).New(t)
	prepare(t, host)
	return &bench{t, open(host, nil), host}
}

// do carries out an operation on a volume of the exam's project, with the UID "u1".
func (b *bench) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("there is no %s", operation)
	}
	decoded := must[any](b)(o.Decode(args))
	return b.Do(b.Context(), sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindVolume, name), UID: "u1", Args: decoded, Key: "k", Progress: func(string) {},
	})
}

func (b *bench) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	return must[sal.Outcome](b)(b.do(operation, name, args)).Values
}

// disk reads the start of the disk in a volume, and its size.
func (b *bench) disk(dir any) (text string, size int64) {
	b.Helper()
	f := must[*os.File](b)(os.Open(filepath.Join(dir.(string), sal.DiskName)))
	defer f.Close()
	start := make([]byte, 32)
	n, _ := f.Read(start)
	return string(bytes.TrimRight(start[:n], "\x00")), must[os.FileInfo](b)(f.Stat()).Size()
}

func TestEveryWayAroundKeepsTheDisk(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "btrfs")
	b := newBench(t)
	root := b.must("volume.create", "root", spec)["path"]
	if text, size := b.disk(root); text != "a disk: debian-12" || size != gib {
		t.Fatalf("the disk has %q and %d bytes", text, size)
	}
	b.must("volume.snapshot", "root", before)
	sent := b.must("volume.send", "root", with(backup, "snapshot", "before"))
	f := must[*os.File](t)(os.OpenFile(filepath.Join(root.(string), sal.DiskName), os.O_WRONLY, 0))
	must[int](t)(f.WriteAt([]byte("another"), 0))
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
		if !inPlace(t, filepath.Join(v["path"].(string), sal.DiskName)) {
			t.Errorf("%s: the disk is not written in place", way)
		}
	}
}

// inPlace reports whether a file has the attribute C of lsattr(1).
func inPlace(t testing.TB, path string) bool {
	t.Helper()
	said, err := exec.Command("lsattr", path).CombinedOutput()
	if err != nil {
		t.Fatalf("lsattr: %v: %s", err, said)
	}
	return strings.Contains(strings.Fields(string(said))[0], "C")
}

func TestVolumeRefusesWhatItCannotHoldOrFind(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "btrfs")
	b := newBench(t)
	b.must("volume.create", "root", with(spec, "size_gib", int64(10)))
	b.must("volume.send", "root", backup)
	backups := filepath.Dir(b.job(sal.Request{Resource: saltest.Resource(writ.KindVolume, "root")}).backupPath(""))
	archive := must[[]byte](t)(os.ReadFile(filepath.Join(backups, "nightly.btrfs")))
	big := filepath.Join(b.host, "images", saltest.Resource(writ.KindImage, "big").HostName())
	for path, text := range map[string][]byte{
		big:                                      nil,
		filepath.Join(backups, "half.btrfs"):     archive[:len(archive)/2],
		filepath.Join(backups, "nonsense.btrfs"): []byte("nonsense"),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(big, gib+1); err != nil {
		t.Fatal(err)
	}
	root := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
	trees := must[[]string](t)(b.Pool.List(t.Context()))
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
		{"volume.receive", "a", map[string]any{"backup": "none", "size_gib": int64(10)}, writ.CodeResourceUnknown},
		{"volume.receive", "a", map[string]any{"backup": "nightly", "size_gib": int64(1)}, writ.CodeQuotaExceeded},
		{"volume.receive", "a", map[string]any{"backup": "half", "size_gib": int64(10)}, writ.CodeArgumentsInvalid},
		{"volume.receive", "a", map[string]any{"backup": "nonsense", "size_gib": int64(10)}, writ.CodeArgumentsInvalid},
		{"volume.receive", "a", map[string]any{"backup": "nightly", "size_gib": int64(10), "sha256": strings.Repeat("0a", 32)}, writ.CodeChecksumMismatch},
	} {
		if _, err := b.do(tt.operation, tt.name, tt.args); writ.CodeOf(err) != tt.code {
			t.Errorf("%s %v: %v, want %s", tt.operation, tt.args, err, tt.code)
		}
	}
	if all, err := b.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("what was refused has left %v, %v", all, err)
	}
	if left := must[[]string](t)(b.Pool.List(t.Context())); !slices.Equal(left, trees) {
		t.Errorf("what was refused has left the trees %v, and there were %v", left, trees)
	}
}

func TestKeepMendsTheQuotaAndMissesTheContent(t *testing.T) {
	t.Parallel()
	tool := testenv.Need(t, "btrfs")
	b := newBench(t)
	dir := b.must("volume.create", "root", spec)["path"].(string)
	root := saltest.Resource(writ.KindVolume, "root")
	keep := func(want ...sal.Drift) {
		t.Helper()
		drift, err := b.Keep(t.Context(), root)
		if err != nil || len(drift) != len(want) || len(want) > 0 && (drift[0].Mended != want[0].Mended || !strings.Contains(drift[0].What, want[0].What)) {
			t.Errorf("it says %+v, %v, want %+v", drift, err, want)
		}
	}
	keep()
	if said, err := exec.Command(tool, "qgroup", "limit", "none", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	keep(sal.Drift{What: "quota", Mended: true})
	keep()
	if err := deleteSubvolume(dir); err != nil {
		t.Fatal(err)
	}
	keep(sal.Drift{What: "gone"})
	must[string](t)(b.Pool.Make(t.Context(), writ.ResourceID{Kind: writ.KindVolume, Name: "nobody's"}.HostName(), 0))
	must[string](t)(b.Pool.Make(t.Context(), "images", 0))
	orphans := must[[]sal.Orphan](t)(b.Orphans(t.Context()))
	if len(orphans) != 1 || orphans[0].Kind != "subvolume" || !strings.HasPrefix(orphans[0].Name, b.Pool.Dir) {
		t.Errorf("the orphans are %v", orphans)
	}
	b.must("volume.delete", "root", nil)
}

func TestOtherDriversFindTheVolume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := b.must("volume.create", "root", spec)["path"]
	project := saltest.Resource("", "").Project
	v := must[sal.Volume](t)(b.Volume(t.Context(), project, writ.Ref{Name: "root"}))
	if want := (sal.Volume{UID: "u1", Dir: dir.(string), SizeGiB: 1}); v != want {
		t.Errorf("they find %+v, want %+v", v, want)
	}
	for ref, want := range map[writ.Ref]writ.Code{{Name: "none"}: writ.CodeResourceUnknown, {Name: "root", UID: "u2"}: writ.CodeResourceConflict} {
		if _, err := b.Volume(t.Context(), project, ref); writ.CodeOf(err) != want {
			t.Errorf("%v: %v, want %s", ref, err, want)
		}
	}
	if u := must[sal.Usage](t)(b.Usage(t.Context(), saltest.Resource(writ.KindVolume, "root"))); u.DiskGiB != 1 {
		t.Errorf("it uses %+v", u)
	}
}
