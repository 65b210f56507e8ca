package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/netns"
)

// Netns creates a network namespace with only a loopback interface, and returns its file. The namespace is removed when
// the test and all processes in it have ended. It skips the test if that is impossible: only root may create one.
func Netns(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := netns.Make(path); err != nil {
		text := "no network namespace can be made here: " + err.Error()
		if !errors.Is(err, unix.EPERM) && os.Getenv(RequireVar) == "all" {
			t.Fatal(text)
		}
		note(t, text)
		t.Skip(text)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}

// InNetns calls a function in a network namespace. Sockets that it opens and processes that it starts stay there.
func InNetns(t testing.TB, path string, do func() error) {
	t.Helper()
	leave, err := netns.Enter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if err := do(); err != nil {
		t.Fatal(err)
	}
}

// ownNetnsVar is set in a process with its own network namespace.
const ownNetnsVar = "WRIT_TEST_OWN_NETNS"

// OwnNetns runs a test again in a process with its own network namespace, so that all goroutines of the test are in it.
// It returns true in that process. If it returns false, the test has run and must return.
func OwnNetns(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetnsVar) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	InNetns(t, Netns(t), func() error {
		again := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), ownNetnsVar+"=yes")
		// The kernel sends this signal when the thread that started the process ends. InNetns locks this goroutine to
		// its thread.
		again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		said, err := again.CombinedOutput()
		switch {
		case err != nil:
			t.Errorf("in a network namespace of its own: %v\n%s", err, said)
		case strings.Contains(string(said), "--- SKIP"):
			t.Skipf("%s", said)
		default:
			t.Logf("%s", said)
		}
		return nil
	})
	return false
}
