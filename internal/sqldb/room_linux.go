package sqldb

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// room returns STORE_READ_ONLY if the disk of the file is read-only, and STORE_FULL if it has no room.
func (h *health) room() error {
	var disk unix.Statfs_t
	dir := filepath.Dir(h.path)
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil // writes report the reason
	}
	if disk.Flags&unix.ST_RDONLY != 0 {
		return readOnly(h.path, unix.EROFS, resumes)
	}
	if err := overQuota(h.path, resumes); err != nil {
		return err
	}
	if uint64(disk.Bavail)*uint64(disk.Bsize) >= minFree || os.Geteuid() == 0 && hasReserve(dir) {
		return nil
	}
	return full(h.path, errors.New("less than 64 KiB of the disk are free"), resumes)
}

// hasReserve reports whether root can still write minFree bytes to a disk without free space for other users. The
// counts of the file system do not show this: ext4 counts blocks as free that not even root can use.
func hasReserve(dir string) bool {
	err := tryRoom(dir)
	return !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT)
}
