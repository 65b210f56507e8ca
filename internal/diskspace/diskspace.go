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

// Occupied returns the disk space of a file, which is less than its size if it has holes.
func Occupied(file fs.FileInfo) int64 {
	if s, ok := file.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return file.Size()
}
