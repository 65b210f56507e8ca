package testcluster

import (
	"bytes"
	"errors"
	"os/exec"
	"sync"
	"time"
)

// saidMost is the number of bytes at the end of a process's output that Write keeps when it trims the output. It trims
// output of more than twice this length.
const saidMost = 256 << 10

// Proc is a process of writ.
type Proc struct {
	Cmd *exec.Cmd
	Err error // valid once ended is closed

	changed chan struct{}
	ended   chan struct{}
	mu      sync.Mutex
	out     []byte
}

// Write stores output of the process.
func (p *Proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
	p.out = append(p.out, b...)
	if len(p.out) > 2*saidMost {
		p.out = append([]byte(nil), p.out[len(p.out)-saidMost:]...)
	}
	return len(b), nil
}

// Said returns the output. If it is long, Said returns only the end.
func (p *Proc) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out)
}

// Ended reports whether the process has exited.
func (p *Proc) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Wait waits for the process to exit and returns its error.
func (p *Proc) Wait() error {
	select {
	case <-p.ended:
		return p.Err
	case <-time.After(Patience):
		return errors.New("it does not end")
	}
}

// kill kills the process unless it has exited.
func (p *Proc) kill() {
	if !p.Ended() {
		_ = p.Cmd.Process.Kill()
		<-p.ended
	}
}

// Limits of the output logged for each process of a failed test, so that a person can read the output of a cluster with
// nine processes. A cluster made by NewIn keeps its complete logs.
const (
	outputLines = 20
	outputBytes = 3 << 10
)

// tail returns the last lines of a log.
func tail(log []byte) []byte {
	lines := bytes.SplitAfter(log[max(0, len(log)-outputBytes):], []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-outputLines-1):], nil)
}
