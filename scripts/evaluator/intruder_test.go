package evaluator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ/scripts/evaluator"
)

// intrusion is an action that confinement must deny.
type intrusion struct {
	try   func() error
	want  error // the error of the kernel; nil if the action ends the process
	privy bool  // without confinement it needs privileges, or hangs
}

// intrude tries one action, in a thread from before the confinement and in a later one, and prints the result of each
// attempt.
func intrude(name string, confined bool) int {
	try := intrusions[name].try
	ready, walls, ends := make(chan bool), make(chan bool), make(chan error)
	go func() {
		runtime.LockOSThread()
		close(ready)
		<-walls
		ends <- try()
	}()
	<-ready
	if confined {
		if _, err := evaluator.Confine(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	close(walls)
	tell(<-ends)
	if confined { // without confinement, a second attempt has another meaning
		go func() {
			runtime.LockOSThread()
			ends <- try()
		}()
		tell(<-ends)
	}
	return 0
}

func tell(err error) {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	fmt.Println(err)
}

// runIntruder starts this binary with a file that it must not access. It returns its output, and the signal that killed
// it, or 0.
func runIntruder(t *testing.T, kind, name string) (says string, by syscall.Signal) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "inherited")
	if err := os.WriteFile(file, []byte("a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	inherited, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inherited.Close() }()
	// A stuck attempt did not succeed either, but must be reported.
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, childBinary(t), kind, name)
	cmd.Dir = dir
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{inherited}
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		by = status.Signal()
	} else if err != nil {
		t.Fatalf("%s %q: %v\n%s", kind, name, err, out)
	}
	return strings.TrimSpace(string(out)), by
}

// needLayer skips a test if this kernel lacks a layer.
func needLayer(t testing.TB, name string) {
	t.Helper()
	layers, err := newPool(t, 1).Confinement(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if l.Name == name && l.Missing != "" {
			t.Skipf("%s: %s", name, l.Missing)
		}
	}
}

// Promise: Evaluation and resumes: A script that compromises its evaluator can only compute and answer: it has no
// file, network or process.
// How: Landlock, seccomp in every thread, no descriptors, environment or privileges, all set before the child reads a
// byte of a script.
// Also: TestLivingChildIsConfined.
func TestChildCannotEscapeConfinement(t *testing.T) {
	needLayer(t, evaluator.LayerSeccomp)
	for name, i := range intrusions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says, by := runIntruder(t, "intruder", name)
			switch {
			case i.want == nil && by != syscall.SIGSYS:
				t.Errorf("it ended by %v with output %q, want it killed", by, says)
			case i.want != nil && says != i.want.Error()+"\n"+i.want.Error():
				t.Errorf("output = %q (%v), want %q twice", says, by, i.want)
			}
			if i.privy {
				return
			}
			if says, _ := runIntruder(t, "visitor", name); says == syscall.EPERM.Error() {
				t.Errorf("output of an unconfined process = %q: the attempt is not a test", says)
			}
		})
	}
}
