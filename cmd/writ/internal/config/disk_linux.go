package config

import "golang.org/x/sys/unix"

// kindOfDisk returns the kind of file system that holds a directory, 0 if unknown.
func kindOfDisk(dir string) uint32 {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0
	}
	return uint32(disk.Type)
}
