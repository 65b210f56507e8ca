package hardware

import (
	"golang.org/x/sys/unix"

	"writ/internal/diskspace"
)

// measure returns the host's memory and the size of the disk that holds dir.
func measure(dir string) (memoryMiB, diskGiB int64, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, 0, err
	}
	size, _, err := diskspace.Of(dir)
	return int64(uint64(info.Totalram) * uint64(info.Unit) >> 20), size >> 30, err
}
