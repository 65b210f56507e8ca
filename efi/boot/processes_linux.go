package boot

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/timerslack"
)

// processes tracks the children of the first process: started programs and adopted orphans.
type processes struct {
	mu    sync.Mutex // held during a start, so that the exit is not collected before the pid is registered
	ended map[int]chan unix.WaitStatus
}

// reap collects exited children for the rest of the machine's life. It calls `turned` after each round and at least
// every aliveEvery. If the loop is stuck, so that exits are not collected, it stops calling turned.
func (p *processes) reap(turned func()) {
	p.ended = map[int]chan unix.WaitStatus{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go turn(signals, time.NewTicker(aliveEvery).C, p.take, turned)
}

// turn collects exited children at each signal and tick, and then calls `turned`. It returns when signals is closed.
func turn(signals <-chan os.Signal, ticks <-chan time.Time, take, turned func()) {
	for {
		select {
		case _, more := <-signals:
			if !more {
				return
			}
		case <-ticks:
		}
		take()
		turned()
	}
}

// take collects all exited children.
func (p *processes) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
		if ended := p.ended[pid]; ended != nil {
			ended <- status
			delete(p.ended, pid)
		}
	}
}

// start starts a program in its own session. Its output goes to output.
func (p *processes) start(
	path string, args, env []string, output *os.File,
) (pid int, ended <-chan unix.WaitStatus, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	var process *os.Process
	err = timerslack.Start(timerslack.Default, func() (err error) {
		process, err = os.StartProcess(path, args, &os.ProcAttr{
			Dir: "/", Env: env, Files: []*os.File{null, output, output}, Sys: &unix.SysProcAttr{Setsid: true},
		})
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	pid = process.Pid // Release clears it
	done := make(chan unix.WaitStatus, 1)
	p.ended[pid] = done
	return pid, done, process.Release()
}

// endAll terminates all remaining processes at shutdown, first with SIGTERM, then with SIGKILL.
func (p *processes) endAll(say func(stage, format string, args ...any)) {
	_ = unix.Kill(-1, unix.SIGTERM)
	if p.allEnd(5 * time.Second) {
		return
	}
	say("off", "processes did not exit and are killed")
	_ = unix.Kill(-1, unix.SIGKILL)
	p.allEnd(2 * time.Second) // before the disk that they may write to is unmounted
}

// allEnd waits until all children have exited and reports whether they have.
func (p *processes) allEnd(within time.Duration) bool {
	for late := time.Now().Add(within); childrenLeft(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
		p.take()
	}
	return true
}

// childrenLeft reports whether the process has any children.
func childrenLeft() bool {
	list, err := os.ReadFile("/proc/thread-self/children")
	return err == nil && len(bytes.TrimSpace(list)) > 0
}

// describe formats the exit status of a process.
func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("signal %d (%v)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
