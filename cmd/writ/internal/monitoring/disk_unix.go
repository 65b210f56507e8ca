//go:build linux || darwin

package monitoring

import "golang.org/x/sys/unix"

// diskOf returns the size of the disk that holds dir, and the bytes that an unprivileged process can still write to it.
func diskOf(dir string) (size, free uint64, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, 0, err
	}
	block := uint64(disk.Bsize)
	return disk.Blocks * block, disk.Bavail * block, nil
}
