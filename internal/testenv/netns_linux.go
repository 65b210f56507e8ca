package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Netns makes a network namespace with nothing in it but a loopback interface, and returns its file. It is gone when the test has ended
// and everybody has left it. It skips the test where that is impossible: only root may make one.
func Netns(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
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

// InNetns calls a function on a thread that is in a network namespace, and waits for it. What it opens there, and processes that it starts,
// stay in there.
func InNetns(t testing.TB, path string, do func() error) {
	t.Helper()
	there, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	err = onThread(func() error {
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return do()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onThread calls a function on a thread of its own, which is used for nothing else afterwards.
func onThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- do()
	}()
	return <-done
}
