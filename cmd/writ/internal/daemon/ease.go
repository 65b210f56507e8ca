package daemon

import "runtime"

// Ease lets this process spend its time on its work. A store waits for its disk in a system call, in which everything else would stand still
// with one processor.
func Ease() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}
