package timerslack

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Set sets the delay of the calling thread, of its future children, and of the program that it becomes by execve.
func Set(delay time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(delay.Nanoseconds()), 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	return nil
}

// Start calls start, which starts a process, on a thread with the given delay.
func Start(delay time.Duration, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := Set(delay); err != nil {
		return err
	}
	defer Set(0) //nolint:errcheck // 0 restores the delay that the thread began with; it cannot fail after the first call
	return start()
}
