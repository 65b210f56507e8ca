package boot

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readKernel stores the kernel's warnings until the machine is turned off.
func (l *logs) readKernel() {
	records, err := os.Open("/dev/kmsg")
	if err != nil {
		return // not a kernel of our images
	}
	defer records.Close()
	for buffer := make([]byte, 16<<10); ; {
		n, err := records.Read(buffer) // reads one record
		switch {
		case errors.Is(err, unix.EPIPE): // some records were overwritten before they were read
			continue
		case err != nil:
			return
		}
		if level, text, after, ok := parseKernel(string(buffer[:n])); ok {
			l.add(sourceKernel, level, text, time.Now().Add(after-uptime()))
		}
	}
}
