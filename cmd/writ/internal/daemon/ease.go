package daemon

import (
	"runtime"

	"writ/internal/pace"
)

// Ease lets this process spend its time on its work. A store waits for its disk in a system call, in which everything else would stand still
// with one processor. And most daemons have so little in memory that the collector would come many times a second (its workers took 4.6 % of a
// busy supervisor): it comes when there are 80 MiB, or, if more than 16 of them live, when they have doubled.
func Ease() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
	pace.Pace{Small: 16 << 20, Late: 400, Early: 100}.Keep()
}
