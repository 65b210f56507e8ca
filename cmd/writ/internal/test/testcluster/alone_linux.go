package testcluster

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"writ/internal/test/testenv"
)

// aloneVar marks a test process that Alone has started in separate namespaces.
const aloneVar = "WRIT_TEST_ALONE"

// Alone runs the test again in a process with its own network, mount and PID namespaces, and reports whether this is
// that process. All processes that it starts end with it, and it sees no objects of other tests on the host. args are
// additional flags. The program that Binary returns in that process is built in advance, with the build tags `tags`.
func Alone(t *testing.T, tags string, args ...string) bool {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.Need(t, "ip")
	if os.Getenv(aloneVar) != "" {
		return true
	}
	const prepare = `mount --make-rprivate / && mount -t proc proc /proc && mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && "$@"; exit $?`
	args = append([]string{"-c", prepare, "sh", os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=60m"}, args...)
	again := exec.Command("sh", args...) // the shell also reaps orphans
	again.Env = append(os.Environ(), aloneVar+"=1", BinaryVar+tags+"="+Binary(t, tags))
	runtime.LockOSThread() // Pdeathsig would kill the child when its thread exits
	defer runtime.UnlockOSThread()
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	said, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("alone: %v\n%s", err, said)
	}
	if strings.Contains(string(said), "--- SKIP") {
		t.Skipf("alone: %s", said)
	}
	t.Logf("%s", said)
	return false
}
