package boot

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readKernel keeps the warnings of the kernel, for as long as the machine runs.
func (l *logs) readKernel() {
	records, err := os.Open("/dev/kmsg")
	if err != nil {
		return // a kernel without it is none of ours
	}
	defer records.Close()
	for buffer := make([]byte, 16<<10); ; {
		n, err := records.Read(buffer) // one record
		switch {
		case errors.Is(err, unix.EPIPE): // some were overwritten before they were read
			continue
		case err != nil:
			return
		}
		if level, text, after, ok := parseKernel(string(buffer[:n])); ok {
			l.add(sourceKernel, level, text, time.Now().Add(after-uptime()))
		}
	}
}
