package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"writ/efi/progress"
)

// programs runs programs of the image.
type programs struct {
	processes processes
	show      func(stage, text string)
}

// Run runs a program once and passes each output line to output. failed describes how it exited, "" for success.
func (p *programs) Run(
	ctx context.Context, name string, command []string, output func(line string),
) (failed string, err error) {
	status, err := p.run(ctx, name, command, output, func(int) {})
	if err == nil && (!status.Exited() || status.ExitStatus() != 0) {
		failed = describe(status)
	}
	return failed, err
}

// run runs a program once and passes each output line to output. When ctx ends, it stops the program and waits for
// its exit.
func (p *programs) run(
	ctx context.Context, name string, command []string, output func(line string), started func(pid int),
) (unix.WaitStatus, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_, _ = read.WriteTo(&lineWriter{show: output})
		read.Close()
	}()
	env := []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root", "TMPDIR=/tmp"}
	pid, ended, err := p.processes.start(command[0], command, env, write)
	write.Close()
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", command[0], err)
	}
	started(pid)
	var status unix.WaitStatus
	select {
	case status = <-ended:
	case <-ctx.Done():
		stage := progress.StageOff
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			stage = name
		}
		_ = unix.Kill(pid, unix.SIGTERM)
		p.show(stage, fmt.Sprintf("waits for %s to exit, at most %s; then %s", name, endLimit.Most, endLimit.Then))
		select {
		case status = <-ended:
			p.show(stage, name+" has ended")
		case <-time.After(endLimit.Most):
			p.show(stage, fmt.Sprintf("%s did not exit within %s and is killed", name, endLimit.Most))
			_ = unix.Kill(pid, unix.SIGKILL)
			status = <-ended
		}
	}
	// Processes that the program left behind may still hold the pipe open.
	select {
	case <-heard:
	case <-time.After(time.Second):
	}
	return status, nil
}
