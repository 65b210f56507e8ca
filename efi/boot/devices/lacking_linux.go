package devices

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Lacking describes the drivers and the firmware that this machine lacks for devices of a class. It returns "" if no
// driver and no firmware file is found to be missing.
func Lacking(class Class) string {
	return lacking(os.DirFS("/sys"), kernelLog(), class)
}

// kernelLog returns the buffered messages of the kernel.
func kernelLog() string {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var log strings.Builder
	record := make([]byte, 8<<10) // larger than the longest record
	for {
		n, err := unix.Read(fd, record)
		switch {
		case err == unix.EPIPE || err == unix.EINTR: // older records were overwritten meanwhile
		case err != nil || n <= 0: // EAGAIN at the end
			return log.String()
		default:
			log.Write(record[:n])
		}
	}
}
