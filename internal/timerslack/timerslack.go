// Package timerslack sets by how much Linux may delay the wake-ups of a thread, so that several share one.
//
// The Go runtime of a busy process wakes its monitor thread every 20 µs plus this delay. With 50 µs, the default of
// Linux, the thread uses up to a tenth of the CPU time of a daemon. With a millisecond it uses little, and timers are a
// millisecond late at most. Threads and processes inherit the delay from the thread that starts them. The monitor thread
// starts before any code of the program, so a daemon gets its delay from its parent: the units of systemd set it.
package timerslack

import "time"

const (
	// Daemon is the delay of a daemon. The units in deploy/systemd set the same value.
	Daemon = time.Millisecond

	// Default is the delay of other processes, as Linux gives it to the first process.
	Default = 50 * time.Microsecond
)
