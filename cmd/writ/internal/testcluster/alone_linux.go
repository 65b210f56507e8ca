package testcluster

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"writ/internal/testenv"
)

// aloneVar says that a test is in namespaces of its own.
const aloneVar = "WRIT_TEST_ALONE"

// Alone runs the test once more in a process with namespaces of its own for networks, mounts and processes, and reports whether this is that
// one. With it ends whatever it has started, and it finds on the host what it has made and nothing of other tests. args are more flags for it,
// and the program that it gets from Binary is built before, with these build tags.
func Alone(t *testing.T, tags string, args ...string) bool {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.Need(t, "ip")
	if os.Getenv(aloneVar) != "" {
		return true
	}
	const prepare = `mount --make-rprivate / && mount -t proc proc /proc && mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && "$@"; exit $?`
	args = append([]string{"-c", prepare, "sh", os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=60m"}, args...)
	again := exec.Command("sh", args...) // which also waits for whoever has lost his parent
	again.Env = append(os.Environ(), aloneVar+"=1", BinaryVar+tags+"="+Binary(t, tags))
	runtime.LockOSThread() // with which the child would end
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
