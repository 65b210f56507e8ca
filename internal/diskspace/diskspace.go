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
// disk that holds a path. After an error the size of the disk is unknown, and images must not use the disk.
func Share(path string, fixed int64) (int64, error) {
	if fixed > 0 {
		return fixed, nil
	}
	size, _, err := Of(path)
	return size / 4, err
}

// PerFile returns the size of the disk that holds a path, divided by its maximum number of files, in bytes. It returns
// 0 for a disk without a fixed number of files, like btrfs.
func PerFile(path string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil || disk.Files == 0 {
		return 0, err
	}
	return int64(disk.Blocks) * int64(disk.Bsize) / int64(disk.Files), nil
}

// Occupied returns the disk space of a file, which is less than its size if it has holes.
func Occupied(file fs.FileInfo) int64 {
	if s, ok := file.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return file.Size()
}
