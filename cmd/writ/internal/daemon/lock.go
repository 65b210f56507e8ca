package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/internal/failpoint"
)

// lockStore makes the data directory and takes a store in it for this process, until the result is closed; the kernel frees it when the
// process is gone, however it ends. Two coordinators on one ledger would not see each other's news, and two supervisors on one journal
// would fence each other off again and again.
func lockStore(data, store string) (*os.File, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(data, store+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, config.Unwritable(data, fmt.Errorf("lock the data directory: %w", err))
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
