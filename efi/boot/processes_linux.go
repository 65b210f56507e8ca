package boot

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// processes are the children of the first process: those that it starts, and those that lost their parent.
type processes struct {
	mu    sync.Mutex // held while a child is started, so that its end is not noticed before its number is known
	ended map[int]chan unix.WaitStatus
}

// reap takes the end of every child, for as long as the machine runs. It calls turned each time when it has done so, and every few seconds: one that
// could start no program, or notice no end, calls nothing.
func (p *processes) reap(turned func()) {
	p.ended = map[int]chan unix.WaitStatus{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go turn(signals, time.NewTicker(aliveEvery).C, p.take, turned)
}

// turn takes the ends of children at each signal and each tick, and tells that each time. It returns when there are no more signals.
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

// take takes the ends of all children that have ended.
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

// start starts a program in a session of its own. Its output goes to a file.
func (p *processes) start(path string, args, env []string, output *os.File) (pid int, ended <-chan unix.WaitStatus, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	process, err := os.StartProcess(path, args, &os.ProcAttr{
		Dir: "/", Env: env, Files: []*os.File{null, output, output}, Sys: &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, err
	}
	pid = process.Pid // which Release forgets
	done := make(chan unix.WaitStatus, 1)
	p.ended[pid] = done
	return pid, done, process.Release()
}

// endAll ends whatever still runs when the machine is turned off: politely, then by force.
func (p *processes) endAll(say func(stage, format string, args ...any)) {
	_ = unix.Kill(-1, unix.SIGTERM)
	if p.allEnd(5 * time.Second) {
		return
	}
	say("off", "processes do not end, and are killed")
	_ = unix.Kill(-1, unix.SIGKILL)
	p.allEnd(2 * time.Second) // before the disk that they write to is left
}

// allEnd waits until all children have ended, and reports whether they have.
func (p *processes) allEnd(within time.Duration) bool {
	for late := time.Now().Add(within); childrenLeft(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
		p.take()
	}
	return true
}

// childrenLeft reports whether any child is there.
func childrenLeft() bool {
	list, err := os.ReadFile("/proc/thread-self/children")
	return err == nil && len(bytes.TrimSpace(list)) > 0
}

// describe says how a process ended.
func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("signal %d (%v)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
