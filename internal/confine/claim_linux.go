package confine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Claim reserves these numbers on this host until the returned closer is closed or the process ends. path names a lock
// file with one byte per number, which all claims on the host share. The error is a *Taken if another claim overlaps.
func (a *Accounts) Claim(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// The lock belongs to the open file, not to the process, so that two claims in one process conflict.
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, a.lock())
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		other := a.lock()
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, other)
		if err == nil && other.Type == unix.F_UNLCK { // it has just been released, so a retry succeeds
			other = a.lock()
		}
		if err == nil {
			err = &Taken{First: uint32(other.Start), Last: uint32(other.Start + other.Len - 1)}
		}
	}
	_ = f.Close()
	if _, taken := errors.AsType[*Taken](err); taken {
		return nil, err
	}
	return nil, fmt.Errorf("lock user numbers in %s: %w", path, err)
}

// lock returns a lock on the bytes of the numbers.
func (a *Accounts) lock() *unix.Flock_t {
	return &unix.Flock_t{
		Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(a.SharedGroup),
		Len: int64(a.Last) - int64(a.SharedGroup) + 1,
	}
}
