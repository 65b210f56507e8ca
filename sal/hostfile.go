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

// HostError converts an error of the operating system to a *writ.Error: DISK_FULL if the disk is full, QUOTA_EXCEEDED
// if a quota is reached, else the code of FaultCode. It returns nil, a *writ.Error and context errors unchanged.
// `doing` is a bare verb phrase: "copy the image".
func HostError(doing string, err error) error {
	if _, ok := errors.AsType[*writ.Error](err); ok || err == nil || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, syscall.EDQUOT) {
		return writ.Errorf(writ.CodeQuotaExceeded, "cannot %s: the size limit is reached: %w", doing, err).
			WithHint("grow the resource or delete its snapshots; if the project has used its share of the node's disk, delete other resources or use another node")
	}
	if errors.Is(err, syscall.ENOSPC) {
		return writ.Errorf(writ.CodeDiskFull, "cannot %s: %w", doing, err).
			WithHint("free space on the node's disk; the call is retried")
	}
	return writ.Errorf(FaultCode(err), "cannot %s: %w", doing, err)
}

// MakeDir creates a directory with mode 0700, and its parents, and syncs the entry. It is not an error if the directory
// exists.
func MakeDir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// FileNames returns the sorted names in a directory. For a missing directory, it returns no names and no error.
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

// SyncDir syncs a directory, so that created, renamed and removed entries survive a power cut.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// WriteFile replaces or creates a file atomically, and syncs it, so that it survives a power cut. It creates the
// directory if it is missing.
//
//failpoint:none the caller names the write
func WriteFile(path string, mode fs.FileMode, text []byte) error {
	if err := MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// writeSynced writes a file and syncs it.
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

// syncEntry syncs the directory of a file that was just renamed into place.
func syncEntry(path string) error {
	err := SyncDir(filepath.Dir(path))
	failpoint.OfFile(path).End(err)
	return err
}

func remove(path string) error {
	failpoint.RecordRemoved.Begin()
	err := os.Remove(path)
	failpoint.RecordRemoved.End(err)
	return err
}
