package sqldb

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"writ"
	"writ/internal/test/testenv"

	"github.com/google/go-cmp/cmp"
)

// smallDisk mounts a file system of 512 KiB. Only root may do that.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mountSmallDisk(t, dir, "size=512k")
	return dir
}

func mountSmallDisk(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("writ-test", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

func TestFullDiskRejectsWritesAndRecovers(t *testing.T) {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	db := open(t, filepath.Join(dir, "things.db"))
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	fullThenRoom(t, db, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("writ-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReadOnlyDiskRejectsWritesAndRecovers(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "things.db")
	db := open(t, path)
	if err := errors.Join(db.Write(t.Context(), insert("a")), db.Close()); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		if err := syscall.Mount("writ-test", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	_, err := Open(t.Context(), path, schema)
	wantUnavailable(t, err)
	wantHint(t, err, writ.CodeStoreReadOnly, "; then start writ again")
	// The kernel makes a disk read-only after an error, also while the store is open.
	wantHint(t, (&health{path: path}).check(t.Context()), writ.CodeStoreReadOnly, "; writ continues by itself")
	remount(0)
	if diff := cmp.Diff([]string{"a"}, names(t, open(t, path))); diff != "" {
		t.Error(diff)
	}
}

func TestFullDiskFailsTheCheck(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) { checkFullDisk(t, smallDisk(t)) })
	t.Run("ext4", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "disk")
		testenv.NewDisk(t, dir, 48)
		checkFullDisk(t, dir)
	})
}

func TestFullPostgreSQLRejectsWritesAndRecovers(t *testing.T) {
	own := testenv.Postgres(t)
	dir := own.Folder("small")
	mountSmallDisk(t, dir, "size=1m")
	own.Folder("small") // the server also owns the disk
	defer own.Kill()    // otherwise the server keeps files of the small disk open
	own.SQL("CREATE TABLESPACE small LOCATION '" + dir + "'")
	fullThenRoom(t, open(t, own.Store()+"&default_tablespace=small"), func() {
		if err := syscall.Mount("writ-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	})
}
