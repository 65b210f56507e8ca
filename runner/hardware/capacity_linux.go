package hardware

import "golang.org/x/sys/unix"

// measure returns the host's memory and the size of the disk that holds dir.
func measure(dir string) (memoryMiB, diskGiB int64, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, 0, err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, 0, err
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit) >> 20), int64(disk.Blocks * uint64(disk.Bsize) >> 30), nil
}
