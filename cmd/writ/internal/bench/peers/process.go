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

// startTime limits how long a server may take to become ready.
const startTime = 60 * time.Second

// server is a child process. It exits with this process, even if this process is killed.
type server struct {
	stop  func() // requests a graceful shutdown
	ended chan error
}

// startServer starts a program and polls the function `ready`, and returns once `ready` returns nil.
func startServer(ctx context.Context, cmd *exec.Cmd, end syscall.Signal, ready func(ctx context.Context) error) (*server, error) {
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = end
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() { // Pdeathsig refers to the thread that started the child
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

// close stops the server and waits for its exit.
func (s *server) close() error {
	s.stop()
	<-s.ended // its exit status is irrelevant
	return nil
}

// tail keeps the end of a server's output.
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

// freePort returns an unused port on loopback.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// removeAll removes a directory of a server.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the files of a server: %w", err)
	}
	return nil
}
