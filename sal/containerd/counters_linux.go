package containerd

import (
	"errors"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// countersOf reads /proc/net/dev of a network namespace. One that is not there, after a reboot, has counted nothing.
func countersOf(path string) (string, error) {
	namespace, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer namespace.Close()
	type answer struct {
		text []byte
		err  error
	}
	read := make(chan answer)
	go func() {
		// The thread stays in the namespace and is never unlocked, so that it ends with this goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			read <- answer{err: err}
			return
		}
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		read <- answer{text, err}
	}()
	a := <-read
	return string(a.text), a.err
}
