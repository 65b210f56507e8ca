package saltest

import "golang.org/x/sys/unix"

// fsType is of what kind the disk of a directory is, 0 if nobody knows.
func fsType(dir string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return 0
	}
	return int64(stat.Type)
}
