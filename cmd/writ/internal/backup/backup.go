// Package backup copies the data directory of a coordinator or supervisor into one file while the daemon works, and makes a directory of
// such a file. Stores are copied as they are at one moment, everything else file by file. It must not be used for nodes: what a node has
// done must not be forgotten, and going back to a backup is forgetting.
package backup

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/ledger/sqlstore"
	"writ/supervisor/journal"
)

// Manifest is what a backup says of itself. It is its first file.
type Manifest struct {
	Format  int       `json:"format"`
	Role    Role      `json:"role"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of the program that made it
}

// Role is whose directory it is.
type Role string

// The roles that can be backed up.
const (
	Coordinator Role = "coordinator"
	Supervisor  Role = "supervisor"
)

const (
	format       = 1
	manifestName = "writ-backup.json"
	maxManifest  = 64 << 10
)

// role is how a directory is recognised, and its store copied.
type role struct {
	name   Role
	sign   string // the file that only this role has
	store  string
	copied func(ctx context.Context, from, to string) error
}

var roles = []role{
	{Supervisor, "supervisor.key", "journal.db", journal.Copy},
	{Coordinator, "ledger.db", "ledger.db", sqlstore.Copy},
}

// roleOf recognises a data directory.
func roleOf(dir string) (role, error) {
	if _, err := os.Stat(filepath.Join(dir, "node.key")); err == nil {
		return role{}, writ.Errorf(writ.CodeUsage, "%s is of a node: restoring it would let the node do again what it has done since", dir).
			WithHint("a node that was lost joins anew, with writ token create and writ runner")
	}
	for _, r := range roles {
		if _, err := os.Stat(filepath.Join(dir, r.sign)); err == nil {
			return r, nil
		}
	}
	return role{}, writ.Errorf(writ.CodeUsage, "%s is not the data directory of a coordinator or a supervisor", dir).
		WithHint("--data is what the daemon was started with")
}

// Save writes a backup of a directory into a new file, which only its owner may read: keys are in it.
func Save(ctx context.Context, dir, file, version string) (m Manifest, err error) {
	r, err := roleOf(dir)
	if err != nil {
		return m, err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return m, writ.Errorf(writ.CodeUsage, "make the backup: %v", err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(fmt.Errorf("make the backup: %w", err), os.Remove(file))
		}
	}()
	m = Manifest{Format: format, Role: r.name, Made: time.Now().UTC().Truncate(time.Second), Version: version}
	w := tar.NewWriter(out)
	if err := addManifest(w, m); err != nil {
		return m, err
	}
	if err := addStore(ctx, w, r, dir, file+".store"); err != nil {
		return m, err
	}
	if err := addFiles(ctx, w, r, dir); err != nil {
		return m, err
	}
	if err := w.Close(); err != nil {
		return m, err
	}
	return m, out.Sync()
}

func addManifest(w *tar.Writer, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Made}); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// addStore adds the store as it is now, by way of a copy. One that is in PostgreSQL has no file here.
func addStore(ctx context.Context, w *tar.Writer, r role, dir, copied string) (err error) {
	from := filepath.Join(dir, r.store)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := r.copied(ctx, from, copied); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return addFile(w, copied, r.store)
}

// addFiles adds everything but the store and what a process has beside it while it works.
func addFiles(ctx context.Context, w *tar.Writer, r role, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(name, r.store) {
			return err
		}
		return addFile(w, path, filepath.ToSlash(name))
	})
}

func addFile(w *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	if _, err := io.CopyN(w, f, info.Size()); err != nil {
		return fmt.Errorf("copy %s: %w", path, err)
	}
	return nil
}

// Restore makes a data directory of a backup. The directory must be empty, or not exist.
func Restore(ctx context.Context, file, dir string) (m Manifest, err error) {
	in, err := os.Open(file)
	if err != nil {
		return m, writ.Errorf(writ.CodeUsage, "read the backup: %v", err)
	}
	defer in.Close()
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return m, writ.Errorf(writ.CodeConflict, "%s is not empty", dir).WithHint("move it away first, and keep it: it may know more than the backup")
	}
	r := tar.NewReader(in)
	if m, err = readManifest(r); err != nil {
		return m, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, writ.Errorf(writ.CodeUsage, "make the data directory: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer root.Close()
	for ctx.Err() == nil {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err == nil {
			err = restoreFile(root, h, r)
		}
		if err != nil {
			return m, writ.Errorf(writ.CodeUsage, "%s is damaged: %v", file, err).WithHint("what is in %s now is of no use", dir)
		}
	}
	return m, ctx.Err()
}

func readManifest(r *tar.Reader) (m Manifest, err error) {
	h, err := r.Next()
	if err == nil && (h.Name != manifestName || h.Size > maxManifest) {
		err = fmt.Errorf("its first file is %q", h.Name)
	}
	if err == nil {
		err = json.NewDecoder(r).Decode(&m)
	}
	if err != nil {
		return m, writ.Errorf(writ.CodeUsage, "this is not a backup of writ: %v", err)
	}
	if m.Format != format {
		return m, writ.Errorf(writ.CodeUsage, "the backup has format %d, this program knows %d", m.Format, format).WithHint("use the writ that made it: %s", m.Version)
	}
	return m, nil
}

// restoreFile writes one file. Root keeps names from leading out of the directory.
func restoreFile(root *os.Root, h *tar.Header, content io.Reader) (err error) {
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%q is not a file", h.Name)
	}
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}
