// Package netns moves a goroutine into a Linux network namespace and back. It does not depend on the content of the
// namespace.
package netns

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Enter locks the calling goroutine to its thread and moves it into the namespace of a file. Sockets that it opens and
// processes that it starts stay there. The same goroutine must call leave to move back. A thread that cannot move back
// ends with its goroutine.
func Enter(path string) (leave func(), err error) {
	there, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	return move(func() error { return unix.Setns(int(there.Fd()), unix.CLONE_NEWNET) })
}

// Prepare makes a directory for the files of namespaces a shared mount point, as ip-netns(8) does. Without that, a
// later `ip netns add` mounts the directory on itself. That mount hides the mounts of earlier namespaces, so their
// files cannot be removed. Prepare does not change a directory with files.
func Prepare(dir string) error {
	share := func() error { return unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, "") }
	err := share()
	if !errors.Is(err, unix.EINVAL) { // EINVAL: dir is not a mount point
		return err
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return share()
}

// Make creates a namespace and binds it to a file, which must exist and be empty. The calling goroutine stays in its
// namespace.
func Make(path string) error {
	leave, err := move(func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	if err != nil {
		return err
	}
	defer leave()
	return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
}

// Aside calls `do` in a new namespace, which is removed afterwards with everything created in it.
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
