package sal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// Users for test processes; no host has them.
const (
	someone = 2020001001
	another = 2020001002
)

// newDisk creates the directory of a volume with a disk that was not handed over.
func newDisk(t *testing.T) (dir, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	dir = filepath.Join(t.TempDir(), "volume")
	path = filepath.Join(dir, sal.DiskName)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, []byte("disk"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// crashAt runs do until its n-th step and reports whether do finished.
func crashAt(t *testing.T, n int, do func(step func(string)) error) (whole bool) {
	t.Helper()
	crash := errors.New("crash")
	defer func() {
		p := recover()
		if err, _ := p.(error); p != nil && !errors.Is(err, crash) {
			panic(p)
		}
	}()
	err := do(func(string) {
		if n--; n < 0 {
			panic(crash)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func quiet(string) {}

// After any sequence of interruptions, the disk belongs to no user except the user who can reach it, and it can be
// reclaimed.
//
// Promise: Speed and storage: A disk belongs to a user only while a record has that user and the disk's directory
// leads to it, also after an interruption at any step.
// How: The directory gains the entry first and loses it last; files return before the record has another user.
// Also: TestDiskOfAContainerStaysUnchanged, TestDiskWithAHardLinkIsReclaimed, TestDiskOwnerIsAlwaysRecorded,
// TestHardLinkedDiskAllowsDelete, TestUsersComeAndGoWithTheNextStart, TestUsersOfEnginesComeAndGoWithTheNextStart.
func TestInterruptedHandoverIsReclaimed(t *testing.T) {
	hand := func(dir string, user uint32, readOnly bool) func(step func(string)) error {
		return func(step func(string)) error { return sal.HandDisk(dir, user, readOnly, step) }
	}
	take := func(dir string) func(step func(string)) error {
		return func(step func(string)) error { return sal.ReclaimDisk(dir, step) }
	}
	for name, begin := range map[string]func(dir string) error{
		"nobody had it": func(string) error { return nil },
		"a container wrote it": func(dir string) error {
			return errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Join(dir, sal.DiskName), 0o666))
		},
		"it was another user's": func(dir string) error { return sal.HandDisk(dir, another, false, quiet) },
		"it was read":           func(dir string) error { return sal.HandDisk(dir, someone, true, quiet) },
	} {
		for _, readOnly := range []bool{false, true} {
			for first, handed := 0, false; !handed; first++ {
				for second, taken := 0, false; !taken; second++ {
					dir, path := newDisk(t)
					at := fmt.Sprintf("%s, read only %t, crashes before step %d and %d", name, readOnly, first, second)
					if err := begin(dir); err != nil {
						t.Fatal(err)
					}
					handed = crashAt(t, first, hand(dir, someone, readOnly))
					safe(t, at, dir, path)
					taken = crashAt(t, second, take(dir))
					safe(t, at, dir, path)
					if err := sal.ReclaimDisk(dir, quiet); err != nil {
						t.Fatal(err)
					}
					top, disk := saltest.Looks(t, dir), saltest.Looks(t, path)
					untouched := name == "a container wrote it" && first == 0 && top == "0:0 777" // a container's directory
					if !untouched && (top != "0:0 755" && top != "0:0 777" || !strings.HasPrefix(disk, "0:0 6")) {
						t.Errorf("%s: left are %s and %s", at, top, disk)
					}
					if err := sal.HandDisk(dir, another, readOnly, quiet); err != nil {
						t.Errorf("%s: %v", at, err)
					}
				}
			}
		}
	}
}

// safe fails the test if the disk belongs to a user other than the user who can reach it.
func safe(t *testing.T, at, dir, path string) {
	t.Helper()
	var uid, gid, group uint32
	var mode fs.FileMode
	_, _ = fmt.Sscanf(saltest.Looks(t, path), "%d:%d", &uid, &gid)
	if _, err := fmt.Sscanf(saltest.Looks(t, dir), "0:%d %o", &group, &mode); err != nil {
		t.Fatalf("%s: the directory is %s", at, saltest.Looks(t, dir))
	}
	if (uid != 0 || gid != 0) && (gid != group || mode != 0o710) {
		t.Errorf("%s: the disk is %s in %s", at, saltest.Looks(t, path), saltest.Looks(t, dir))
	}
}

// Containers may have a file of that name, and their directories may belong to any user.
func TestDiskOfAContainerStaysUnchanged(t *testing.T) {
	for _, of := range []struct {
		uid, gid   int
		mode       fs.FileMode
		file, fgid int
		disk       fs.FileMode
	}{
		{0, 0, 0o755, 1000, 1000, 0o600},
		{1000, 1000, 0o710, 1000, 1000, 0o600},
		{0, 1000, 0o750, 0, 1000, 0o600},
		{0, 0, 0o710, 1000, 1000, 0o600},
		{0, 0, 0o710, 0, 0, 0o644},
		{0, 1000, 0o710, 1001, 1001, 0o600},
	} {
		dir, path := newDisk(t)
		if err := errors.Join(os.Chown(path, of.file, of.fgid), os.Chmod(path, of.disk), os.Chmod(dir, of.mode), os.Chown(dir, of.uid, of.gid)); err != nil {
			t.Fatal(err)
		}
		before := saltest.Looks(t, dir) + saltest.Looks(t, path)
		if err := sal.ReclaimDisk(dir, func(what string) { t.Errorf("%+v: %s", of, what) }); err != nil {
			t.Errorf("%+v: %v", of, err)
		}
		if after := saltest.Looks(t, dir) + saltest.Looks(t, path); after != before {
			t.Errorf("%+v: it was %s and is %s", of, before, after)
		}
	}
}

// The user may link to the disk from any directory they can write. That must prevent neither its reclaim nor the next
// handover to the same user.
func TestDiskWithAHardLinkIsReclaimed(t *testing.T) {
	dir, path := newDisk(t)
	second := filepath.Join(filepath.Dir(dir), "second")
	if err := errors.Join(sal.HandDisk(dir, someone, false, quiet), os.Link(path, second)); err != nil {
		t.Fatal(err)
	}
	if err := sal.HandDisk(dir, someone, false, quiet); err != nil {
		t.Errorf("it is his own: %v", err)
	}
	if err := sal.ReclaimDisk(dir, quiet); err != nil {
		t.Fatal(err)
	}
	if top, disk := saltest.Looks(t, dir), saltest.Looks(t, second); top != "0:0 755" || disk != "0:0 600" {
		t.Errorf("left are %s and %s", top, disk)
	}
	err := sal.HandDisk(dir, another, false, quiet)
	e := writ.AsError(err)
	if e == nil || e.Code != writ.CodeResourceConflict || !strings.Contains(e.Hint, "-xdev -samefile "+path) {
		t.Fatalf("handover to another user: %v, want a conflict with the search command", err)
	}
	if disk := saltest.Looks(t, second); disk != "0:0 600" {
		t.Errorf("it is %s now", disk)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := sal.HandDisk(dir, another, false, quiet); err != nil {
		t.Error(err)
	}
}
