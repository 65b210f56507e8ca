//go:build cgo

package btrfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// asUser runs a shell line in a directory as a user without privileges, like a program in a container.
func asUser(t testing.TB, dir, line string) (said string, err error) {
	t.Helper()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	at := must[*os.File](t)(os.Open(dir)) // the user may be unable to traverse the path
	defer at.Close()
	cmd := exec.Command("sh", "-c", "cd /proc/self/fd/3/. && "+line)
	cmd.ExtraFiles = []*os.File{at}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// nest creates subvolumes in a tree: two siblings, one of them read-only, each with another subvolume inside.
func nest(t testing.TB, dir string) {
	t.Helper()
	testenv.Need(t, "btrfs")
	if said, err := asUser(t, dir, "mkdir dir && for s in one one/deeper dir/two dir/two/deeper; do btrfs subvolume create $s || exit 1; done && "+
		"echo mine > one/deeper/file && btrfs property set -t subvol dir/two ro true"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// bury creates a subvolume in a directory that is too deep for any path.
func bury(t testing.TB, dir string) {
	t.Helper()
	at := must[int](t)(unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0))
	name := strings.Repeat("a", 255)
	for range 20 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next := must[int](t)(unix.Openat(at, name, unix.O_DIRECTORY|unix.O_RDONLY, 0))
		unix.Close(at)
		at = next
	}
	defer unix.Close(at)
	var args struct {
		_    int64
		name [4088]byte
	}
	copy(args.name[:], "buried")
	if err := call(uintptr(at), 1, 14, &args); err != nil {
		t.Fatal(err)
	}
}

// Promise: Volumes and images: Nested subvolumes are never lost silently: `writ node show` names them, and snapshots,
// copies, backups and restores are refused until they are removed.
// How: Before and after each snapshot, writ lists the subvolume's contents from the kernel and removes by number;
// deletion includes them.
// Also: TestTreeIsRemovedWithNestedSubvolumes, TestVolumeWithSubvolumesIsNotCopied.
func TestNestedSubvolumesAreReported(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		ctx, bound := t.Context(), sal.Bound{Bytes: 32 * mib}
		dir := must[string](t)(p.Make(ctx, "a", bound))
		if err := p.Snapshot(ctx, "a", "before"); err != nil {
			t.Fatal(err)
		}
		nest(t, dir)
		drift := must[[]sal.Drift](t)(p.Keep(ctx, "a", bound))
		if len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, `"one" and 1 more`) || !strings.Contains(drift[0].What, "rm -r") {
			t.Errorf("Keep says %+v", drift)
		}
		for doing, do := range map[string]func() error{
			"Snapshot": func() error { return p.Snapshot(ctx, "a", "after") },
			"Restore":  func() error { return p.Restore(ctx, "a", "before") },
			"Copy":     func() error { _, err := p.Copy(ctx, "b", bound, "a", ""); return err },
			"View":     func() error { _, _, err := p.View(ctx, "a", ""); return err },
		} {
			if err := do(); writ.CodeOf(err) != writ.CodeResourceConflict || !strings.Contains(err.Error(), `"one"`) || writ.AsError(err).Hint == "" {
				t.Errorf("%s: %v", doing, err)
			}
		}
		if all := must[[]string](t)(p.Snapshots(ctx, "a")); len(all) != 1 {
			t.Errorf("the snapshots are %v", all)
		}
		if all := must[[]string](t)(p.List(ctx)); len(all) != 1 {
			t.Errorf("the trees are %v", all)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "one", "deeper", "file")); err != nil || string(text) != "mine\n" {
			t.Errorf("inside is %q, %v", text, err)
		}
		if _, err := p.Copy(ctx, "b", bound, "a", "before"); err != nil {
			t.Errorf("copy of an earlier snapshot: %v", err)
		}

		// The user who created them can follow the remedy.
		if said, err := asUser(t, dir, "cp -r one kept && rm -r one && btrfs property set -t subvol dir/two ro false && rm -r dir"); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		if drift := must[[]sal.Drift](t)(p.Keep(ctx, "a", bound)); len(drift) > 0 {
			t.Errorf("drift after the remedy = %+v", drift)
		}
		if err := p.Snapshot(ctx, "a", "after"); err != nil {
			t.Error(err)
		}
	})
}

func TestTreeIsRemovedWithNestedSubvolumes(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		dir := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 32 * mib}))
		nest(t, dir)
		bury(t, dir)
		bury(t, filepath.Join(dir, "one", "deeper"))
		must[[]sal.Drift](t)(p.Keep(t.Context(), "a", sal.Bound{Bytes: 32 * mib}))
		if err := p.Remove(t.Context(), "a"); err != nil {
			t.Fatalf("%s: %v", writ.CodeOf(err), err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the tree: %v", err)
		}
		top := must[uint64](t)(subvolumeID(filepath.Join(p.dir, "trees"))) // for a plain directory, the number of its subvolume
		if left := must[[]nested](t)(nestedIn(p.dir, top)); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// With simple quotas, a new subvolume joins the groups of its parent.
func TestNestedSubvolumesCountForTheProject(t *testing.T) {
	t.Parallel()
	dir := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 1<<10).Dir
	p := New(Config{Dir: filepath.Join(dir, "pool"), ProjectBytes: func(writ.ProjectID) int64 { return 64 * mib }})
	tree := must[string](t)(p.Make(t.Context(), "a", sal.Bound{Bytes: 32 * mib, Project: "p"}))
	if simple := must[bool](t)(simpleQuota(dir)); !simple {
		t.Skip("this kernel has full quotas only")
	}
	testenv.Need(t, "btrfs")
	said, err := asUser(t, tree, "btrfs subvolume create one && btrfs subvolume create one/deeper && head -c 300M /dev/zero > one/deeper/file; sync one; stat -c %s one/deeper/file")
	if !strings.Contains(said, "quota exceeded") {
		t.Errorf("300 MiB in a project of 64: %v, %s", err, said)
	}
}
