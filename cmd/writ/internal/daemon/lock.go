package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/failpoint"
)

// lockStore makes the data directory and takes a store in it for this process, until the result is closed; the kernel frees it when the
// process is gone, however it ends. Two coordinators on one ledger would not see each other's news, and two supervisors on one journal
// would fence each other off again and again.
func lockStore(data, store string) (*os.File, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, unwritable(data, fmt.Errorf("make the data directory: %w", err))
	}
	f, err := os.OpenFile(filepath.Join(data, store+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unwritable(data, fmt.Errorf("lock the data directory: %w", err))
	}
	failpoint.OfFile(f.Name()).Begin()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, writ.Errorf(writ.CodeConflict, "another process works with %s", filepath.Join(data, store)).
				WithHint("stop it, or give this one its own --data")
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	failpoint.OfFile(f.Name()).End(nil)
	return f, nil
}

// unwritable is an error of a file in a data directory as people are told it, if nothing can be written there.
func unwritable(data string, err error) error {
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, fs.ErrPermission) {
		return writ.Errorf(writ.CodeStoreUnavailable, "%w", err).WithHint("%s must be on a writable disk with free space; start it again then", data)
	}
	return err
}
