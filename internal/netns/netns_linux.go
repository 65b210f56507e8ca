// Package netns brings a goroutine into a network namespace of Linux and back. It must not know what is in there.
package netns

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Enter brings the calling goroutine, and the thread that it is locked to from now on, into the namespace of a file. What it opens there
// stays in there, and so do processes that it starts. Leave brings it back, and must be called by the same goroutine; a thread that cannot go
// back ends with its goroutine.
func Enter(path string) (leave func(), err error) {
	there, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	return move(func() error { return unix.Setns(int(there.Fd()), unix.CLONE_NEWNET) })
}

// Make makes a namespace that a file keeps, which must exist and be empty. The calling goroutine stays where it is.
func Make(path string) error {
	leave, err := move(func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	if err != nil {
		return err
	}
	defer leave()
	return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
}

// Aside does something in a namespace of its own, which is gone afterwards with all that was made in it.
func Aside(do func() error) error {
	leave, err := move(func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

func move(away func() error) (leave func(), err error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if err := away(); err != nil {
		runtime.UnlockOSThread()
		return nil, errors.Join(err, home.Close())
	}
	return func() {
		defer home.Close()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
