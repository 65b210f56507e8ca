package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// startTime bounds how long a server may take until it serves.
const startTime = 60 * time.Second

// server is a child process that serves others. It ends with this process, even if that is killed.
type server struct {
	stop  func() // politely
	ended chan error
}

// startServer starts a program and returns when ready says so, which is asked again and again.
func startServer(ctx context.Context, cmd *exec.Cmd, end syscall.Signal, ready func(ctx context.Context) error) (*server, error) {
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = end
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() { // the kernel watches the thread that made the child
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	s := &server{stop: func() { _ = cmd.Process.Signal(end) }, ended: ended}
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-again.C:
		case <-ended:
			return nil, fmt.Errorf("%s ended: %s", filepath.Base(cmd.Path), said.String())
		case <-ctx.Done():
			s.stop()
			<-ended
			return nil, fmt.Errorf("%s does not answer (%w): %s", filepath.Base(cmd.Path), err, said.String())
		}
	}
}

// close ends the server and waits for it.
func (s *server) close() error {
	s.stop()
	<-s.ended // how it ends is not measured
	return nil
}

// tail keeps the last of what a server says.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	t.last = t.last[max(len(t.last)-most, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}

// freePort returns a port of loopback on which nobody listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// removeAll is for directories that only servers know.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the files of a server: %w", err)
	}
	return nil
}
