package testenv

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// watchVar is in the environment of a watcher: the number of the test process that it watches.
const watchVar = "WRIT_TEST_WATCHED"

// startWatcher starts this program once more, in a session of its own, so that what kills this process and its group leaves it. It waits for that
// and does nothing else. Its number is 0 if it cannot be started.
func startWatcher() (pid int) {
	program, err := os.Executable()
	if err != nil {
		return 0
	}
	ends, open, err := os.Pipe()
	if err != nil {
		return 0
	}
	defer ends.Close()
	cmd := exec.Command(program)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, MakerVar+"=") }), watchVar+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdin, cmd.SysProcAttr = ends, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = open.Close()
		return 0
	}
	homes.lifeline = open
	return cmd.Process.Pid
}

// In a watcher this package is all that runs.
func init() {
	if maker, err := strconv.Atoi(os.Getenv(watchVar)); err == nil {
		watch(maker)
		os.Exit(0)
	}
}

// watch waits until a test process has ended, and removes what it left. One that ended in order has left nothing.
func watch(maker int) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	roots := []string{os.TempDir(), inMemory}
	left := homesIn(roots, homesOf(maker))
	for _, dir := range left {
		awaitUnlocked(dir)
	}
	if len(left) > 0 {
		sweep(roots...)
	}
}
