package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// newTerminal returns both ends of a terminal that answers no question.
func newTerminal(t *testing.T) (outside, inside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { outside.Close() })
	number, err := unix.IoctlGetInt(int(outside.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(outside.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	inside, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	return outside, inside
}

// An answer may never come, what was typed ahead is for the shell, and a process in the background that asks is stopped.
func TestErrorAsksTheTerminalNothing(t *testing.T) {
	outside, inside := newTerminal(t)
	cmd := exec.Command("writ", "run", "show", "zz")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 2 {
		t.Fatalf("it ended with %v", exit)
	}
	shown := make([]byte, 4096)
	n, err := outside.Read(shown)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(shown[:n]); !strings.Contains(got, `"zz" is not the id of a run`) || strings.Contains(got, "\x1b]11;") {
		t.Errorf("the terminal got %q", got)
	}
}
