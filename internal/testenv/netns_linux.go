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

// Netns makes a network namespace with nothing in it but a loopback interface, and returns its file. It is gone when the test has ended
// and everybody has left it. It skips the test where that is impossible: only root may make one.
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

// InNetns calls a function in a network namespace. What it opens there, and processes that it starts,
// stay in there.
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

// ownNetnsVar says that a process has a network namespace of its own.
const ownNetnsVar = "WRIT_TEST_OWN_NETNS"

// OwnNetns runs a test once more, in a process whose network namespace is its own: what is tested may start goroutines, and all of them are in
// there. It reports whether this is that process. Where it is not, the test has run and may return.
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
		again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // InNetns keeps the thread with which it would end
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
