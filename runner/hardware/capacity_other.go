//go:build !linux

package hardware

import (
	"runtime"

	"writ"
)

// measure returns an error: it works on Linux only, and on other systems the capacity must be configured.
func measure(string) (memoryMiB, diskGiB int64, err error) {
	return 0, 0, writ.Errorf(writ.CodeUsage, "the memory and disk of a host with %s cannot be measured", runtime.GOOS).
		WithHint("configure the capacity of the node")
}
