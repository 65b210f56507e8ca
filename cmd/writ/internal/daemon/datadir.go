package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/internal/storelock"
)

// KeptFile is a file of a data directory that a daemon creates only once. Without it the daemon would silently get a
// new identity or lose its records.
type KeptFile struct {
	Name     string
	Role     string   // for the message: "coordinator"
	Evidence []string // each of these files proves that the daemon has used the directory
	Next     string   // the next step, with the directory as its argument
}

// FromBackup is the beginning of KeptFile.Next for a file that backups contain.
const FromBackup = "bring it back with `writ restore`, or copy it from a backup of %[1]s. "

// Check returns DATA_INCOMPLETE if the file is missing from a data directory that its daemon has used.
func (k KeptFile) Check(data string) error {
	if info, err := os.Stat(filepath.Join(data, k.Name)); !errors.Is(err, fs.ErrNotExist) &&
		(err != nil || info.Size() > 0) {
		return nil
	}
	for _, name := range k.Evidence {
		if Exists(filepath.Join(data, name)) && !storelock.IsUnmarked(filepath.Join(data, name)) {
			return Incomplete(data, k.Name, "the "+k.Role+" has worked with this directory before").
				WithHint(k.Next, data)
		}
	}
	return nil
}

// Incomplete returns DATA_INCOMPLETE for a missing file. why is the proof that the file existed.
func Incomplete(data, name, why string) *writ.Error {
	return writ.Errorf(writ.CodeDataIncomplete, "%s is missing or empty, although %s", filepath.Join(data, name), why)
}

// Exists reports whether a file exists. A file that cannot be inspected counts as existing.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
