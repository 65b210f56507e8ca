package pidfd_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/pidfd"
)

func TestEndOfProcessIsNoticed(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := pidfd.Open(cmd.Process.Pid)
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	defer p.Close()
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) || p.Ended() {
		t.Errorf("while it lives: %v, ended %t", err, p.Ended())
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil || !p.Ended() { // the child is not reaped yet
		t.Errorf("after its end: %v, ended %t", err, p.Ended())
	}
	_ = cmd.Wait()
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Errorf("a signal to the dead: %v", err)
	}
	if again, err := pidfd.Open(cmd.Process.Pid); again != nil || err != nil {
		t.Errorf("a process that has ended: %v, %v", again, err)
	}
}
