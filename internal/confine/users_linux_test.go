package confine_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ/internal/confine"
	"writ/internal/test/testenv"
	"writ/internal/timerslack"
)

// Users of these tests only.
const (
	someone = 2021001001
	another = 2021001002
)

// waiting starts an idle shell as a user. It ends with the test.
func waiting(t *testing.T, user uint32) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read x")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := confine.Start(cmd, confine.Cell{User: user, SharedGroup: user}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	return cmd
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes as others")
	}
}

// TestAProcessHasTheDefaultTimerSlack starts a process from a thread with the timer slack of a daemon.
func TestAProcessHasTheDefaultTimerSlack(t *testing.T) {
	var said strings.Builder
	cmd := exec.Command("/bin/cat", "/proc/self/timerslack_ns")
	cmd.Stdout, cmd.SysProcAttr = &said, &syscall.SysProcAttr{}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked, so the thread ends
		started <- timerslack.Start(timerslack.Daemon, func() error { return confine.StartHere(cmd) })
	}()
	err := <-started
	if err == nil {
		err = cmd.Wait()
	}
	want := strconv.FormatInt(timerslack.Default.Nanoseconds(), 10)
	if got := strings.TrimSpace(said.String()); err != nil || got != want {
		t.Errorf("the process has %s ns instead of %s: %v", got, want, err)
	}
}

func TestAProcessIsKnownByItsUser(t *testing.T) {
	needRoot(t)
	pid := waiting(t, someone).Process.Pid
	for user, want := range map[uint32]bool{someone: true, another: false, 0: false} {
		if confine.RunsAs(pid, user) != want {
			t.Errorf("RunsAs(%d) = %t", user, !want)
		}
	}
	if !confine.RunsAs(os.Getpid(), 0) || confine.RunsAs(os.Getpid(), someone) {
		t.Error("RunsAs is wrong about this process")
	}
}

func TestOnlyProcessesOfTheUserEnd(t *testing.T) {
	needRoot(t)
	his, alsoHis, others := waiting(t, someone), waiting(t, someone), waiting(t, another)
	if err := confine.End(t.Context(), someone); err != nil {
		t.Fatal(err)
	}
	if left, err := confine.Processes(someone); err != nil || len(left) > 0 {
		t.Errorf("remaining processes = %v, %v", left, err)
	}
	for _, cmd := range []*exec.Cmd{his, alsoHis} {
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it ended with %v", err)
		}
	}
	if left, err := confine.Processes(another); err != nil || len(left) != 1 || left[0] != others.Process.Pid {
		t.Errorf("processes of the other user = %v, %v", left, err)
	}
	if err := confine.End(t.Context(), 0); err == nil {
		t.Error("root's processes would end")
	}
}

// Some containers have no user namespace: root there can switch to the number of an engine. Such a process is not the
// engine, does not block the number, and must not be killed.
//
// Promise: Speed and storage: A compromised engine or container root cannot impersonate another database or a
// starting machine.
// How: A process is identified by its user, which it cannot choose; processes with their own process numbers or root
// directory are never a driver's.
// Also: TestAProcessInItsOwnNamespacesEnds, TestEngineIsIdentifiedByItsUser, TestEngineIsNotAContainerProcess,
// TestStartIsIdentifiedByItsUser.
func TestNoProcessOfAContainerCountsAsAUser(t *testing.T) {
	testenv.NeedRoot(t)
	who := &syscall.Credential{Uid: someone, Gid: someone}
	for name, tt := range map[string]struct {
		as    syscall.SysProcAttr
		known bool
	}{
		"of this host":            {syscall.SysProcAttr{Credential: who}, true},
		"with numbers of its own": {syscall.SysProcAttr{Credential: who, Cloneflags: syscall.CLONE_NEWPID}, false},
		// Has /bin and /lib in it.
		"in a root of its own": {syscall.SysProcAttr{Credential: who, Chroot: "/usr"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", "read x")
			cmd.SysProcAttr, cmd.Dir = &tt.as, "/"
			input, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = input.Close()
				if err := cmd.Wait(); !tt.known && strings.Contains(fmt.Sprint(err), "killed") {
					t.Errorf("it ended with %v", err)
				}
			}()
			if confine.RunsAs(cmd.Process.Pid, someone) != tt.known {
				t.Errorf("RunsAs = %t", !tt.known)
			}
			if all, err := confine.Processes(someone); len(all) > 0 != tt.known || err != nil {
				t.Errorf("the user has %v, %v", all, err)
			}
			if err := confine.End(t.Context(), someone); err != nil {
				t.Error(err)
			}
		})
	}
}

// An unprivileged process can hide in namespaces if it makes a user namespace. Such a process is ended as well.
func TestAProcessInItsOwnNamespacesEnds(t *testing.T) {
	needRoot(t)
	const hide = "unshare --user --pid --fork sh -c 'echo there; read x; read y'"
	cmd := exec.Command("/bin/sh", "-c", hide)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := confine.Start(cmd, confine.Cell{User: someone, SharedGroup: someone}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Skip("only the mighty make user namespaces here")
	}
	all, err := confine.Processes(someone)
	if err != nil || len(all) < 2 {
		t.Fatalf("processes = %v, %v", all, err)
	}
	if err := confine.End(t.Context(), someone); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(out); err != nil { // more output may follow while a process is alive
		t.Error(err)
	}
}

// A number is in use while a process runs as it, independently of records.
func TestTheNumberOfARunningUserIsNotReused(t *testing.T) {
	needRoot(t)
	waiting(t, someone)
	a := &confine.Accounts{SharedGroup: another + 1, First: someone, Last: another}
	none := func() (map[uint32]string, error) { return map[uint32]string{}, nil }
	for _, name := range []string{"a", "b", "c"} {
		var r confine.Register
		if user, err := r.Choose(a, name, none, t.TempDir()); user != another || err != nil {
			t.Errorf("%s is %d, %v", name, user, err)
		}
	}
}

// A host has thousands of processes: they are listed once, however many numbers are taken.
func TestProcessesAreListedOnce(t *testing.T) {
	a := &confine.Accounts{SharedGroup: someone - 1, First: someone, Last: someone + 9}
	var r confine.Register
	looks := r.CountLooksForTest(someone+1, someone+3, someone+5, someone+7)
	used := map[uint32]string{}
	none := func() (map[uint32]string, error) { return maps.Clone(used), nil }
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		user, err := r.Choose(a, name, none, t.TempDir())
		if err != nil || used[user] != "" || user == someone+1 || user == someone+3 || user == someone+5 || user == someone+7 {
			t.Errorf("%s is %d, %v", name, user, err)
		}
		used[user] = name
	}
	if *looks != 6 {
		t.Errorf("it was looked %d times for 6 names", *looks)
	}
	if _, err := r.Choose(a, "g", none, t.TempDir()); err == nil {
		t.Error("got a number from an exhausted range")
	}
}

// The error names the obstacle. A failure for another reason is not reported as an obstacle.
func TestAnUnexecutableProgramNamesTheObstacle(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	program := filepath.Join(closed, "program")
	if err := errors.Join(os.Mkdir(closed, 0o700), exec.Command("cp", "/bin/sh", program).Run()); err != nil {
		t.Fatal(err)
	}
	cell := confine.Cell{User: someone, SharedGroup: another}
	start := func(cmd *exec.Cmd) *confine.Barred {
		t.Helper()
		err := confine.Start(cmd, cell)
		if err == nil {
			_ = cmd.Wait()
			return nil
		}
		barred, ok := errors.AsType[*confine.Barred](err)
		if !ok && !errors.Is(err, syscall.EACCES) {
			t.Errorf("it says %v", err)
		}
		return barred
	}
	if b := start(exec.Command(program, "-c", "")); b == nil || b.At != closed || !strings.Contains(b.Error(), fmt.Sprint(someone)) {
		t.Errorf("error in a closed directory = %v", b)
	}
	if err := errors.Join(os.Chmod(closed, 0o710), os.Chown(closed, 0, another), os.Chmod(program, 0o640)); err != nil {
		t.Fatal(err)
	}
	if b := start(exec.Command(program, "-c", "")); b == nil || b.At != program {
		t.Errorf("error for a file without code = %v", b)
	}
	if err := errors.Join(os.Chmod(program, 0o750), os.Chown(program, 0, another)); err != nil {
		t.Fatal(err)
	}
	if b := start(exec.Command(program, "-c", "")); b != nil {
		t.Errorf("it says %v", b)
	}
	elsewhere := exec.Command(program, "-c", "")
	elsewhere.Dir = filepath.Join(dir, "private")
	if err := os.Mkdir(elsewhere.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if b := start(elsewhere); b != nil {
		t.Errorf("error in a forbidden working directory = %v", b)
	}
}

// About one process in a hundred had no arguments right after its start.
func TestStartedProcessHasArgumentsAfterAWait(t *testing.T) {
	for range 500 {
		cmd := exec.Command("/bin/sh", "-c", "read x")
		input, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		has := confine.AwaitArguments(cmd.Process.Pid, time.Now().Add(time.Minute))
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		_, _ = input.Close(), cmd.Wait()
		if !has || err != nil || string(text) != strings.Join(cmd.Args, "\x00")+"\x00" {
			t.Fatalf("its arguments are %q, %v, %v", text, has, err)
		}
		if confine.AwaitArguments(cmd.Process.Pid, time.Now().Add(time.Minute)) {
			t.Fatal("a process that has ended has arguments")
		}
	}
}
