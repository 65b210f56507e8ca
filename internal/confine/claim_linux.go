package confine

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Claim makes sure that nobody else on this host gives out any of these numbers, until what it returns is closed or this process ends,
// however it does. All who ask share a file, of which each locks the bytes that have its numbers. The error is a *Taken if somebody has some
// of them.
func (a *Accounts) Claim(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// Of the open file and not of the process: another one who asks in this process is another one.
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, a.lock())
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		other := a.lock()
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, other)
		if err == nil && other.Type == unix.F_UNLCK { // it was given back this moment, and whoever asks again gets it
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

// lock is on the bytes of the numbers.
func (a *Accounts) lock() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(a.SharedGroup), Len: int64(a.Last) - int64(a.SharedGroup) + 1}
}
