package saltest

import "golang.org/x/sys/unix"

// fsType returns the type of a directory's file system, 0 if unknown.
func fsType(dir string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return 0
	}
	return int64(stat.Type)
}
