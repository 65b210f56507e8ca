// Package storelock locks the file of a store for one process and records that the store exists.
package storelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ/internal/failpoint"
)

// ErrLocked is returned by Acquire if another process has the lock.
var ErrLocked = errors.New("another process has the lock")

const suffix = ".lock"

// Lock is the lock of one store. The kernel releases it when the process ends for any reason.
type Lock struct{ file *os.File }

// Path returns the path of the lock file of the store at path.
func Path(store string) string { return store + suffix }

// Acquire locks the store at path, which need not exist yet. It does not wait: if another process has the lock, it
// returns ErrLocked.
func Acquire(store string) (*Lock, error) {
	f, err := os.OpenFile(Path(store), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	point := failpoint.OfFile(f.Name())
	point.Begin()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	point.End(nil)
	return &Lock{f}, nil
}

// Close releases the lock. The lock file is kept.
func (l *Lock) Close() error { return l.file.Close() }

// MarkOpened records in the lock file that the store was opened. If the store is missing later, it was lost.
func (l *Lock) MarkOpened() error {
	if info, err := l.file.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	if _, err := l.file.WriteAt([]byte("the store beside this file was made\n"), 0); err != nil {
		return fmt.Errorf("mark the store as opened: %w", err)
	}
	return nil
}

// IsUnmarked reports whether path is the lock file of a store that was never opened.
func IsUnmarked(path string) bool {
	info, err := os.Stat(path)
	return filepath.Ext(path) == suffix && err == nil && info.Size() == 0
}
