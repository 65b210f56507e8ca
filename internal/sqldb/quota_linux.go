package sqldb

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
)

// overQuota returns STORE_FULL if a quota of the disk is used up: of a user, a project or a subvolume. SQLite reports
// that as an I/O error, although the disk has free space.
func overQuota(path string, next nextStep) error {
	if path == "" || !errors.Is(tryRoom(filepath.Dir(path)), unix.EDQUOT) {
		return nil
	}
	return because(unix.EDQUOT, writ.CodeStoreFull, "the store%s cannot be written, a quota of its disk is used up",
		named(path)).
		WithHint("raise the quota of the user or directory (`quota`, `repquota -P`, `btrfs qgroup show`), or delete files; %s", next)
}

// tryRoom allocates an unnamed file of minFree bytes in dir, and returns the error.
func tryRoom(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fallocate(fd, 0, 0, minFree)
}
