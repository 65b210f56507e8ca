// Package pidfd refers to processes by file descriptors, because the kernel reuses process numbers. It does not depend
// on the purpose of the processes.
package pidfd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that was alive when it was opened. It need not be a child. One goroutine at a time may wait for
// it.
type Process struct{ file *os.File }

// Open returns the process with a number, or nil if it does not exist.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread has the number now
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Process{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close releases the handle. The process continues to run.
func (p *Process) Close() { _ = p.file.Close() }

// Ended reports whether the process has ended, whether its parent has waited for it or not.
func (p *Process) Ended() bool {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return true
	}
	ended := true
	_ = raw.Control(func(fd uintptr) { ended = readable(fd) })
	return ended
}

// readable reports whether a pidfd is readable: its process has ended.
func readable(fd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0
}

// Wait returns nil when the process has ended, or the error of ctx. It waits in the runtime's poller and needs no
// thread.
func (p *Process) Wait(ctx context.Context) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = p.file.SetReadDeadline(time.Unix(1, 0))
	})
	err = raw.Read(readable)
	if !stop() {
		<-fired
		_ = p.file.SetReadDeadline(time.Time{})
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Signal sends a signal to the process and no other. It is not an error if the process has ended.
func (p *Process) Signal(s syscall.Signal) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return failed
	}
	return errors.Join(err, failed)
}
