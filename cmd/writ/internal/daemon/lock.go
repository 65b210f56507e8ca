package daemon

import (
	"errors"
	"fmt"
	"path/filepath"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/internal/storelock"
)

// LockStore creates the data directory and locks a store in it for this process. Without the lock, two coordinators on
// one ledger would miss each other's changes, and two supervisors on one journal would fence each other off again and
// again.
func LockStore(data, store string) (*storelock.Lock, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	path := filepath.Join(data, store)
	lock, err := storelock.Acquire(path)
	if errors.Is(err, storelock.ErrLocked) {
		return nil, writ.Errorf(writ.CodeConflict, "another process works with %s", path).
			WithHint("stop it, or give this one its own --data")
	}
	if err != nil {
		return nil, config.Unwritable(data, fmt.Errorf("lock the data directory: %w", err))
	}
	return lock, nil
}
