package mycelium

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/confine"
	"writ/internal/pidfd"
	"writ/internal/procstat"
	"writ/sal/needs"
)

// process is a daemon. The handle refers to this process, even if its PID is reused.
type process struct {
	pid    int
	args   []string
	handle *pidfd.Process
	child  *exec.Cmd // nil if another process started it
}

// findDaemon returns the running daemon with this program name and key, or nil. The caller must close its handle.
func findDaemon(program, key string) (*process, error) {
	running, err := confine.Running()
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(confine.ExecTime)
	for _, pid := range running {
		if commandLine(pid) == nil {
			confine.AwaitArguments(pid, until)
		}
		if !isDaemon(pid, program, key) {
			continue
		}
		handle, err := pidfd.Open(pid)
		if err != nil || handle == nil {
			continue // it exited meanwhile
		}
		if isDaemon(pid, program, key) { // still the same process after the handle was opened
			return &process{pid: pid, args: commandLine(pid), handle: handle}, nil
		}
		handle.Close()
	}
	return nil, nil
}

// isDaemon reports whether a process is a daemon with this program name and key. It excludes processes of other users
// with the same arguments, which any user can start.
func isDaemon(pid int, program, key string) bool {
	args := commandLine(pid)
	i := slices.Index(args, keyFlag)
	return i > 0 && i+1 < len(args) && args[i+1] == key && filepath.Base(args[0]) == filepath.Base(program) &&
		confine.RunsAs(pid, 0)
}

// commandLine returns the arguments of a process, nil if it has exited.
func commandLine(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// wait returns when the process has exited or ctx has ended. Any exit is an error.
func (p *process) wait(ctx context.Context) error {
	if err := p.handle.Wait(ctx); err != nil {
		return err
	}
	if p.child == nil {
		return errors.New("it exited")
	}
	if err := p.child.Wait(); err != nil {
		return err
	}
	return errors.New("it exited without an error")
}

// grace limits the time for a daemon to exit before it is killed.
const grace = 5 * time.Second

// stop ends the process with SIGTERM, then SIGKILL, and waits for its exit up to `grace` after each, or until ctx ends.
func (p *process) stop(ctx context.Context) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		patience, cancel := context.WithTimeout(ctx, grace)
		_ = p.handle.Signal(signal)
		_ = p.wait(patience)
		late := patience.Err() != nil
		cancel()
		if !late {
			return
		}
	}
}

// daemonInfo returns the PID, start time and version of the running daemon with this program name and key. It returns
// zero values if no such daemon runs.
func daemonInfo(
	ctx context.Context, program, key string, versions *needs.Versions,
) (pid int64, since time.Time, version string) {
	p, err := findDaemon(program, key)
	if err != nil || p == nil {
		return 0, time.Time{}, ""
	}
	defer p.handle.Close()
	since, _ = startOf(p.pid)
	if len(p.args) > 0 { // otherwise it has exited meanwhile
		version, _ = versions.Of(ctx, fmt.Sprintf("/proc/%d/exe", p.pid), p.args[0], "--version")
	}
	return int64(p.pid), since, version
}

// startOf returns the start time of a process.
func startOf(pid int) (time.Time, error) {
	fields, err := procstat.Fields(pid)
	if err != nil {
		return time.Time{}, err
	}
	began, err := procstat.Start(fields)
	if err != nil {
		return time.Time{}, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return time.Time{}, err
	}
	up := time.Duration(info.Uptime) * time.Second // rounded to seconds
	return time.Now().Add(time.Duration(began)*time.Second/procstat.Ticks - up).Truncate(time.Second), nil
}
