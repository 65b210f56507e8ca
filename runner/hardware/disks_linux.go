package hardware

import (
	"slices"

	"golang.org/x/sys/unix"

	"writ"
)

// Disks returns each file system that holds one of the directories, once, with the first of its directories. Missing
// directories are skipped.
func Disks(dirs ...string) []writ.Disk {
	var all []writ.Disk
	var seen []unix.Fsid
	for _, dir := range dirs {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err != nil || slices.Contains(seen, s.Fsid) {
			continue
		}
		seen = append(seen, s.Fsid)
		used := s.Blocks - s.Bfree
		all = append(all, writ.Disk{
			Path: word(dir), Bytes: int64((used + s.Bavail) * uint64(s.Bsize)), Free: int64(s.Bavail * uint64(s.Bsize)),
		})
	}
	return all
}
