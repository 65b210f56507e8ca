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

// watchVar is set in the environment of a watcher. It holds the pid of the watched test process.
const watchVar = "WRIT_TEST_WATCHED"

// startWatcher starts this program again as a watcher, in its own session, so that it survives a kill of this process
// group. The watcher waits for the end of this process. startWatcher returns 0 if the watcher cannot be started.
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
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, MakerVar+"=") }),
		watchVar+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdin, cmd.SysProcAttr = ends, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = open.Close()
		return 0
	}
	homes.lifeline = open
	return cmd.Process.Pid
}

// In a watcher, init does all the work and exits before main, so that no test runs.
func init() {
	if maker, err := strconv.Atoi(os.Getenv(watchVar)); err == nil {
		watch(maker)
		os.Exit(0)
	}
}

// watch waits for the end of a test process and removes its leftovers. A process that ended normally has none.
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
