package daemon

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"writ"
	"writ/internal/serveraddr"
	"writ/internal/storelock"
)

// storeLocation is the place of a daemon's records: a file in its data directory, or a PostgreSQL database.
type storeLocation struct {
	path string    // name to open the store with
	file string    // the same; "" for a database
	lock io.Closer // of the file; a database allows several processes
}

// opened records that the store exists, so that a later start detects its loss.
func (l *storeLocation) opened() error {
	if lock, is := l.lock.(*storelock.Lock); is {
		return lock.MarkOpened()
	}
	return nil
}

// claimStore returns the location of a store, and locks a file for this process. address is empty, the postgres:// URL
// of a database, or @FILE with such a URL.
func claimStore(data string, file keptFile, flag, address string) (storeLocation, error) {
	if address != "" {
		url, err := ServerAddress(flag, address)
		return storeLocation{path: url, lock: io.NopCloser(nil)}, err
	}
	if err := file.check(data); err != nil {
		return storeLocation{}, err
	}
	lock, err := lockStore(data, file.name)
	if err != nil {
		return storeLocation{}, err
	}
	path := filepath.Join(data, file.name)
	return storeLocation{path, path, lock}, nil
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
