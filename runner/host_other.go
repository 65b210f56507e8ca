//go:build !linux

package runner

import (
	"runtime"

	"writ"
)

// measure refuses: nodes run Linux, elsewhere what they offer must be said.
func measure(string) (memoryMiB, diskGiB int64, err error) {
	return 0, 0, writ.Errorf(writ.CodeUsage, "the memory and disk of a host with %s cannot be measured", runtime.GOOS).
		WithHint("say what the node offers")
}
