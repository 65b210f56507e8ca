package testenv

import (
	"errors"
	"os"
	"path/filepath"
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
