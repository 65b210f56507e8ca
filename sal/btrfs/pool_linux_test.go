//go:build cgo

package btrfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs/btrfstest"
	"writ/sal/saltest"
)

func TestTreesConformance(t *testing.T) {
	t.Parallel()
	saltest.RunTrees(t, saltest.TreesSuite{
		Hosts: btrfstest.NewHosts(t),
		Open: func(_ testing.TB, host string, step func(string)) sal.Trees {
			return New(Config{Dir: host, Step: step})
		},
	})
}

const mib = 1 << 20

// kinds runs a test with each kind of quotas, on separate disks.
func kinds(t *testing.T, test func(t *testing.T, p *Pool)) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"simple": func(*testing.T, string) {},
		"full": func(t *testing.T, dir string) {
			if said, err := exec.Command(testenv.Need(t, "btrfs"), "quota", "enable", dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 1<<10).Dir
			prepare(t, dir)
			p := New(Config{Dir: filepath.Join(dir, "pool")})
			test(t, p)
			if simple, err := simpleQuota(dir); err != nil || simple != (name == "simple") {
				t.Errorf("the quotas are simple: %v, %v", simple, err)
			}
		})
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", writ.CodeOf(err), err)
		}
		return v
	}
}

// fill writes a file in a directory until it has upTo MiB or the disk is full, and returns its size in MiB. It
// overwrites existing content.
func fill(t testing.TB, dir string, upTo int) (written int, err error) {
	t.Helper()
	f := must[*os.File](t)(os.OpenFile(filepath.Join(dir, sal.DiskName), os.O_WRONLY|os.O_CREATE, 0o600))
	defer f.Close()
	block := bytes.Repeat([]byte("writ"), mib/4)
	for ; written < upTo; written++ {
		if _, err := f.Write(block); err != nil {
			return written, err
		}
		if written%16 != 15 {
			continue
		}
		if err := f.Sync(); err != nil {
			return written, err
		}
	}
	return written, f.Sync()
}

// syncAll makes the file system count the written data.
func syncAll(t testing.TB, dir string) {
	t.Helper()
	if err := onDir(dir, func(fd uintptr) error { return unix.Syncfs(int(fd)) }); err != nil {
		t.Fatal(err)
	}
}

// charged returns the bytes that the kernel charges to a quota group, as of the last commit.
func charged(t testing.TB, p *Pool, group uint64) int64 {
	t.Helper()
	return must[int64](t)(groupNumber(p.dir, group, "referenced"))
}

// Promise: Volumes and images: A btrfs volume holds the requested size plus at most a 32nd and 16 MiB, with any
// snapshots; volumes of a project share a limit.
// How: Kernel quotas, simple ones where available; each snapshot that pins blocks has a limit.
// Also: TestSnapshotsDoNotShrinkATree, TestVolumesOfAProjectShareItsBound.
func TestTreeSizeIsEnforced(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		dir := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 32 * mib}))
		if n, err := fill(t, dir, 200); !errors.Is(err, unix.EDQUOT) || n < 32 || n > 32+1+16 {
			t.Errorf("a tree of 32 MiB took %d: %v", n, err)
		}
		_, err := fill(t, dir, 200)
		if got := writ.AsError(sal.HostError("write", err)); got.Code != writ.CodeQuotaExceeded || got.Hint == "" {
			t.Errorf("error = %v", got)
		}
		must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 128 * mib}))
		if n, err := fill(t, dir, 128); err != nil {
			t.Errorf("grown to 128 MiB it took %d: %v", n, err)
		}
		syncAll(t, p.dir)
		if used := charged(t, p, group(0, must[uint64](t)(subvolumeID(dir)))); used < 127*mib || used > 160*mib {
			t.Errorf("128 MiB are counted as %d", used)
		}
	})
}

// volumes.md has the limit of a volume of 1 GiB, and that programs in it see the space of the whole file system.
func TestManualHasTheMarginOfAVolume(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		dir := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 1 << 30}))
		limit := must[int64](t)(groupLimit(p.dir, group(0, must[uint64](t)(subvolumeID(dir)))))
		manual := strings.Join(strings.Fields(string(must[[]byte](t)(os.ReadFile("../../docs/manual/volumes.md")))), " ")
		want := fmt.Sprintf("1/%d of the size and %d MiB. So a volume of 1 GiB can hold %d,%03d MiB", slackShare, slackBytes/mib, limit/mib/1000, limit/mib%1000)
		if limit%mib != 0 || !strings.Contains(manual, want) {
			t.Errorf("the limit of a volume of 1 GiB is %d bytes, and the manual lacks %q", limit, want)
		}
		var inside, whole unix.Statfs_t
		if err := errors.Join(unix.Statfs(dir, &inside), unix.Statfs(p.dir, &whole)); err != nil {
			t.Fatal(err)
		}
		if inside.Blocks != whole.Blocks || inside.Bsize != whole.Bsize {
			t.Errorf("a volume shows %d blocks of %d bytes, its file system %d of %d", inside.Blocks, inside.Bsize, whole.Blocks, whole.Bsize)
		}
	})
}

func TestKeepMendsTheQuota(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		bound := sal.Bound{Bytes: 32 * mib}
		keep := func(want ...sal.Drift) {
			t.Helper()
			if drift := must[[]sal.Drift](t)(p.Keep(t.Context(), "a", bound)); !slices.EqualFunc(drift, want, func(a, b sal.Drift) bool {
				return a.Mended == b.Mended && strings.Contains(a.What, b.What)
			}) {
				t.Errorf("drift = %+v, want %+v", drift, want)
			}
		}
		keep(sal.Drift{What: "gone"})
		dir := must[string](t)(p.Make(t.Context(), "a", bound))
		keep()
		if said, err := exec.Command(testenv.Need(t, "btrfs"), "qgroup", "limit", "none", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		keep(sal.Drift{What: "quota", Mended: true})
		keep()
		must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 64 * mib})) // without an update of its record
		keep()
	})
}

// A machine must be able to write its whole disk, with any number of snapshots.
// Somebody has replaced a tree by a directory, for example while restoring files.
func TestKeepNamesAnObjectInPlaceOfATree(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		bound := sal.Bound{Bytes: 32 * mib}
		dir := must[string](t)(p.Make(t.Context(), "a", bound))
		if err := deleteSubvolume(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		drift := must[[]sal.Drift](t)(p.Keep(t.Context(), "a", bound))
		if len(drift) != 1 || !strings.Contains(drift[0].What, dir+" exists and is not a subvolume") {
			t.Errorf("drift = %+v", drift)
		}
	})
}

func TestSnapshotsDoNotShrinkATree(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		dir := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 32 * mib}))
		for _, s := range []string{"one", "two"} {
			if n, err := fill(t, dir, 32); err != nil {
				t.Fatalf("before the snapshot %s: %d MiB, %v", s, n, err)
			}
			if err := p.Snapshot(t.Context(), "a", s); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := fill(t, dir, 32); err != nil {
			t.Errorf("after two snapshots: %d MiB, %v", n, err)
		}
		if err := p.Restore(t.Context(), "a", "one"); err != nil {
			t.Fatal(err)
		}
		if n, err := fill(t, dir, 32); err != nil {
			t.Errorf("after it was put back: %d MiB, %v", n, err)
		}
		if n, err := fill(t, dir, 900); !errors.Is(err, unix.EDQUOT) || n > 200 {
			t.Errorf("without a bound: %d MiB, %v", n, err)
		}
	})
}

// Promise: Volumes and images: Volumes and databases of a project, with snapshots and metadata, use no more disk than
// `writ runner --project-disk`.
// How: A quota group of the kernel per project.
// Also: TestNestedSubvolumesCountForTheProject, TestSharesOfADiskNeedOneThatKeepsThem.
func TestVolumesOfAProjectShareItsBound(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		a := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 80 * mib, Project: "bounded"}))
		b := must[string](t)(p.Make(t.Context(), "b", sal.Bound{Bytes: 80 * mib, Project: "bounded"}))
		other := must[string](t)(p.Make(t.Context(), "c", sal.Bound{Bytes: 80 * mib, Project: "unbounded"}))
		keep := func(share int64) { // as a runner that starts with another limit
			t.Helper()
			p.most = func(project writ.ProjectID) int64 { return map[writ.ProjectID]int64{"bounded": share}[project] }
			if drift := must[[]sal.Drift](t)(p.Keep(t.Context(), "b", sal.Bound{Bytes: 80 * mib, Project: "bounded"})); len(drift) > 0 {
				t.Errorf("drift = %+v", drift)
			}
		}
		keep(60 * mib)
		if n, err := fill(t, a, 80); err != nil {
			t.Fatalf("the first took %d MiB: %v", n, err)
		}
		if n, err := fill(t, b, 80); !errors.Is(err, unix.EDQUOT) || n > 20 {
			t.Errorf("the second took %d MiB: %v", n, err)
		}
		if n, err := fill(t, other, 80); err != nil {
			t.Errorf("one of another project took %d MiB: %v", n, err)
		}
		keep(160 * mib)
		if n, err := fill(t, b, 80); err != nil {
			t.Errorf("with more room the second took %d MiB: %v", n, err)
		}
		if used := charged(t, p, projectGroup("bounded")); used < 159*mib || used > 200*mib {
			t.Errorf("the project uses %d", used)
		}
	})
}

// A node with many trees calls Keep for each of them every half minute.
func TestTreeCountsAreCached(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		p.most = func(writ.ProjectID) int64 { return 1 << 40 }
		bound := sal.Bound{Bytes: mib, Project: "p"}
		names := []string{"a", "b", "c", "d"}
		look := func(want int) {
			t.Helper()
			before := p.sums
			for _, name := range names {
				if drift := must[[]sal.Drift](t)(p.Keep(t.Context(), name, bound)); len(drift) > 0 {
					t.Errorf("drift = %+v", drift)
				}
			}
			if p.sums-before != want {
				t.Errorf("for %d trees they were added up %d times", len(names), p.sums-before)
			}
			if count := must[int](t)(p.count("p")); count != len(names) {
				t.Errorf("count of %d trees = %d", len(names), count)
			}
		}
		for _, name := range names {
			must[string](t)(p.Make(t.Context(), name, bound))
		}
		look(1)
		look(0)
		must[string](t)(p.Copy(t.Context(), "e", bound, "a", ""))
		names = append(names, "e")
		look(1)
		if err := p.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		names = names[1:]
		look(1)
		look(0)
	})
}

// A project can write all it was promised, to the last byte: requests that exceed its share fail before anything is
// created.
func TestSizesOfAProjectAreLimited(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		ctx := t.Context()
		p.most = func(writ.ProjectID) int64 { return 100 * mib }
		of := func(size int64) sal.Bound { return sal.Bound{Bytes: size * mib, Project: "p"} }
		refused := func(doing string, err error, numbers ...string) {
			t.Helper()
			if writ.CodeOf(err) != writ.CodeQuotaExceeded || writ.AsError(err).Hint == "" {
				t.Errorf("%s: %v", doing, err)
			}
			for _, n := range numbers {
				if !strings.Contains(err.Error(), n) {
					t.Errorf("%s: no %s in %v", doing, n, err)
				}
			}
		}
		dirs := []string{must[string](t)(p.Make(ctx, "a", of(60)))}
		_, err := p.Make(ctx, "b", of(41))
		refused("a second one", err, "100 MiB", "60 MiB", "41 MiB")
		refused("Room", p.Room(ctx, "b", of(41)))
		_, err = p.Copy(ctx, "b", of(60), "a", "")
		refused("a copy", err)
		if all := must[[]string](t)(p.List(ctx)); len(all) != 1 {
			t.Errorf("it left %v", all)
		}
		dirs = append(dirs, must[string](t)(p.Make(ctx, "b", of(30))))
		_, err = p.Make(ctx, "b", of(41))
		refused("growth", err, "60 MiB", "41 MiB")
		must[string](t)(p.Make(ctx, "b", of(40)))
		must[string](t)(p.Make(ctx, "c", sal.Bound{Bytes: 60 * mib, Project: "another"}))
		for i, size := range []int{60, 40} {
			if n, err := fill(t, dirs[i], size); err != nil {
				t.Errorf("of %d MiB %d were written: %v", size, n, err)
			}
		}

		p.most = func(writ.ProjectID) int64 { return 50 * mib } // existing trees stay
		must[string](t)(p.Make(ctx, "b", of(40)))
		must[[]sal.Drift](t)(p.Keep(ctx, "a", of(60)))
		_, err = p.Make(ctx, "d", of(1))
		refused("one more", err)
	})
}

func TestConcurrentSizesAreAddedUp(t *testing.T) {
	t.Parallel()
	p := New(Config{Dir: filepath.Join(testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 256).Dir, "pool")})
	p.most = func(writ.ProjectID) int64 { return 100 * mib }
	done := make(chan error)
	for i := range 8 {
		go func() {
			_, err := p.Make(t.Context(), string(rune('a'+i)), sal.Bound{Bytes: 30 * mib, Project: "p"})
			done <- err
		}()
	}
	made := 0
	for range 8 {
		if err := <-done; err == nil {
			made++
		} else if writ.CodeOf(err) != writ.CodeQuotaExceeded {
			t.Error(err)
		}
	}
	if made != 3 {
		t.Errorf("there are %d", made)
	}
}

func TestCloneSharesBlocksOfItsImage(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		images := must[string](t)(p.Make(t.Context(), "images", sal.Bound{}))
		must[int](t)(fill(t, images, 64))
		scattered := filepath.Join(p.dir, "scattered") // not written in place
		if err := sal.Clone(t.Context(), filepath.Join(images, sal.DiskName), filepath.Join(p.dir, "copy"), 0, nil); err != nil {
			t.Fatal(err)
		}
		text := must[[]byte](t)(os.ReadFile(filepath.Join(images, sal.DiskName)))
		if err := os.WriteFile(scattered, text, 0o600); err != nil {
			t.Fatal(err)
		}
		room := func() uint64 {
			var stat unix.Statfs_t
			syncAll(t, p.dir)
			if err := unix.Statfs(p.dir, &stat); err != nil {
				t.Fatal(err)
			}
			return stat.Bfree * uint64(stat.Bsize) / mib
		}
		before := room()
		for _, from := range []string{filepath.Join(images, sal.DiskName), scattered} {
			dir := must[string](t)(p.Make(t.Context(), "of-"+filepath.Base(from), sal.Bound{Bytes: 256 * mib}))
			if err := p.Clone(t.Context(), from, filepath.Join(dir, sal.DiskName), 256*mib); err != nil {
				t.Fatal(err)
			}
		}
		if after := room(); before-after > 16 {
			t.Errorf("two clones of 64 MiB took %d MiB", before-after)
		}
	})
}

func TestFullDiskIsReported(t *testing.T) {
	t.Parallel()
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 128)
	p := New(Config{Dir: filepath.Join(disk.Dir, "pool")})
	dir := must[string](t)(p.Make(t.Context(), "a", sal.Bound{}))
	if _, err := fill(t, dir, 200); writ.CodeOf(sal.HostError("write", err)) != writ.CodeDiskFull {
		t.Errorf("writing: %v", err)
	}
	if err := p.Remove(t.Context(), "a"); err != nil {
		t.Errorf("a full disk cannot be freed: %v", err)
	}
}

func TestOnlyBtrfsIsUsable(t *testing.T) {
	t.Parallel()
	if err := Usable("/proc"); writ.CodeOf(err) != writ.CodeDriverMissing || writ.AsError(err).Hint == "" {
		t.Errorf("/proc: %v", err)
	}
	p := New(Config{Dir: filepath.Join(t.TempDir(), "pool")})
	if _, err := p.Make(t.Context(), "a", sal.Bound{}); Usable(t.TempDir()) != nil && writ.CodeOf(err) != writ.CodeDriverMissing {
		t.Errorf("a tree elsewhere: %v", err)
	}
}
