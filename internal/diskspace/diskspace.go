// Package diskspace measures disks and the files on them, in bytes.
package diskspace

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// Of returns the size of the disk that holds a path, and the space on it that is free for users other than root.
func Of(path string) (size, free int64, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return 0, 0, err
	}
	block := int64(disk.Bsize)
	return int64(disk.Blocks) * block, int64(disk.Bavail) * block, nil
}

// Share returns the part of a disk that images may use together, in bytes: fixed or, if that is 0, a quarter of the
// disk that holds a path. If the size of the disk is unknown, images must not use it.
func Share(path string, fixed int64) (int64, error) {
	if fixed > 0 {
		return fixed, nil
	}
	size, _, err := Of(path)
	return size / 4, err
}

// Occupied returns the disk space of a file, which is less than its size if it has holes.
func Occupied(file fs.FileInfo) int64 {
	if s, ok := file.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return file.Size()
}
