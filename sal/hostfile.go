package sal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"writ"
	"writ/internal/failpoint"
)

// HostError turns an error of the operating system into one for people: DISK_FULL when there is no room, QUOTA_EXCEEDED when there would be
// and a bound is reached, else the code of FaultCode. Errors
// that are for people already, and those of a context that ended, stay as they are, and so does nil. Doing is a bare verb phrase, "copy the image".
func HostError(doing string, err error) error {
	if _, ok := errors.AsType[*writ.Error](err); ok || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, syscall.EDQUOT) {
		return writ.Errorf(writ.CodeQuotaExceeded, "cannot %s: it would hold more than it may: %w", doing, err).
			WithHint("let it grow, or remove snapshots of it; if the project holds all that it may on this node, delete some of it or use another node")
	}
	if errors.Is(err, syscall.ENOSPC) {
		return writ.Errorf(writ.CodeDiskFull, "cannot %s: %w", doing, err).WithHint("free space on the node's disk; the call is tried again")
	}
	return writ.Errorf(FaultCode(err), "cannot %s: %w", doing, err)
}

// MakeDir makes a directory that only we may read, and its parents, so that it is still there after a power cut. One that exists is
// no error.
func MakeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// FileNames are the names in a directory, sorted; none if it is not there.
func FileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, HostError("list "+dir, err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all, nil
}

// SyncDir makes sure that what was made, renamed or removed in a directory stays so after a power cut.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeSynced writes a file and returns when its content is on disk.
func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = failpoint.OfFile(path).Write(f, text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncEntry makes sure that a file stays which has just taken its place.
func syncEntry(path string) error {
	err := SyncDir(filepath.Dir(path))
	failpoint.OfFile(path).End(err)
	return err
}

// remove removes a file.
func remove(path string) error {
	failpoint.RecordRemoved.Begin()
	err := os.Remove(path)
	failpoint.RecordRemoved.End(err)
	return err
}
