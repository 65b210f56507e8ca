package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"writ/cmd/writ/internal/config"

	"writ"
	"writ/internal/serveraddr"
	"writ/internal/storelock"
)

// Store is the place of a daemon's records: a file in its data directory, or a PostgreSQL database.
type Store struct {
	Path string    // name to open the store with
	File string    // Path for a file, "" for a database
	Lock io.Closer // of the file; a database allows several processes
}

// Opened records that the store exists, so that a later start detects its loss.
func (l *Store) Opened() error {
	if lock, is := l.Lock.(*storelock.Lock); is {
		return lock.MarkOpened()
	}
	return nil
}

// ClaimStore returns the location of a store, and locks a file for this process. address is empty, the postgres:// URL
// of a database, or @FILE with such a URL.
func ClaimStore(data string, file KeptFile, flag, address string) (Store, error) {
	if address != "" {
		url, err := ServerAddress(flag, address)
		return Store{Path: url, Lock: io.NopCloser(nil)}, err
	}
	if err := file.Check(data); err != nil {
		return Store{}, err
	}
	lock, err := LockStore(data, file.Name)
	if err != nil {
		return Store{}, err
	}
	path := filepath.Join(data, file.Name)
	return Store{path, path, lock}, nil
}

// ServerAddress returns the postgres:// URL in the value of a flag, or in the file that it names with @. A password in
// the value itself is an error.
func ServerAddress(flag, value string) (string, error) {
	address, fromFile, err := ValueOf(value)
	if err != nil {
		return "", writ.Errorf(writ.CodeUsage, "cannot read the address of the store: %v", err)
	}
	if !fromFile && serveraddr.HasPassword(value) {
		return "", writ.Errorf(writ.CodeUsage,
			"there is a password in --%s, where every user of this machine can read it", flag).
			WithHint("put the password into ~/.pgpass or the file that PGPASSFILE names, or the whole address into a file: --%s @FILE", flag)
	}
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return "", writ.Errorf(writ.CodeUsage, "--%s takes the address of a PostgreSQL database", flag).
			WithHint("postgres://user@host/database; without it the store is a file in --data")
	}
	return address, nil
}

// ValueOf returns the value of a flag. For @FILE it is the file's text without surrounding space, so that a list of
// processes does not show it.
func ValueOf(flag string) (value string, fromFile bool, err error) {
	file, fromFile := strings.CutPrefix(flag, "@")
	if !fromFile {
		return flag, false, nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), true, err
}

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
			WithHint("stop that process, or use another --data")
	}
	if err != nil {
		return nil, config.Unwritable(data, fmt.Errorf("lock the data directory: %w", err))
	}
	return lock, nil
}
