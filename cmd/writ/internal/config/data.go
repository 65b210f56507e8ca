package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"writ"
)

// MakeData creates the data directory if it is missing. Its error explains how to correct the directory given by the
// user.
func MakeData(data string) error {
	err := os.MkdirAll(data, 0o700)
	if err == nil {
		return nil
	}
	err = Unwritable(data, fmt.Errorf("make the data directory: %w", err))
	if _, said := errors.AsType[*writ.Error](err); said {
		return err
	}
	return writ.Errorf(writ.CodeUsage, "%w", err).WithHint("name another directory with --data")
}

// Unwritable converts an error for a file in a data directory. It adds a code and a hint if the disk is full or
// read-only, if this user may not write, or if data is not a directory. Other errors are returned unchanged.
func Unwritable(data string, err error) error {
	switch {
	case writ.CodeOf(err) == writ.CodeStoreFull || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return writ.Errorf(writ.CodeStoreFull, "%w", err).WithHint("free space on the disk of %s, or raise its quota; then start the program again", data)
	case errors.Is(err, fs.ErrPermission):
		return writ.Errorf(writ.CodeStoreReadOnly, "%w", err).
			WithHint("user %d may not write to %s: change its owner, or name another directory with --data", os.Geteuid(), data)
	case writ.CodeOf(err) == writ.CodeStoreReadOnly || errors.Is(err, unix.EROFS):
		return writ.Errorf(writ.CodeStoreReadOnly, "%w", err).
			WithHint("%s must be on a writable disk with free space; then start the program again", data)
	case errors.Is(err, unix.ENOTDIR):
		return writ.Errorf(writ.CodeUsage, "%w", err).
			WithHint("%s is a file, or is below one: name a directory with --data", data)
	}
	return err
}
