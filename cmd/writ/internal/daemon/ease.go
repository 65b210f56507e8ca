package daemon

import "runtime"

// Ease uses at least two threads for Go code. With a single one, a store that waits for its disk in a system call would
// block everything else.
func Ease() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}
