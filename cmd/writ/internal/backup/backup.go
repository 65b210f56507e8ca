// Package backup copies the data directory of a running coordinator or supervisor into one file, and restores a
// directory from such a file. The store is copied as a consistent snapshot, all other files one by one. The package
// must not be used for nodes: a node that returns to an older state would repeat its work.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/ledger/sqlstore"
	"writ/supervisor/journal"
)

// Manifest describes a backup. It is the first file of the archive.
type Manifest struct {
	Format  int       `json:"format"`
	Role    Role      `json:"role"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // version of the program that wrote the backup
}

// Role identifies the daemon that owns the data directory.
type Role string

// Roles with backups.
const (
	Coordinator Role = "coordinator"
	Supervisor  Role = "supervisor"
)

const (
	format       = 1
	manifestName = "writ-backup.json"
	maxManifest  = 64 << 10
	maxSums      = 16 << 20 // about 100,000 files
)

// role describes how to recognise a data directory and how to copy its store.
type role struct {
	name   Role
	signs  []string // files that only this role has
	store  string
	copied func(ctx context.Context, from, to string) error
}

var roles = []role{
	{Supervisor, []string{"supervisor.key"}, "journal.db", journal.Copy},
	// A ledger on PostgreSQL is backed up separately.
	{Coordinator, []string{"coordinator.key", "ledger.db"}, "ledger.db", sqlstore.Copy},
}

// nodeSign is a file that exists only in the data directory of a node.
const nodeSign = "node.key"

// roleOf returns the role of the data directory dir.
func roleOf(dir string) (role, error) {
	if _, err := os.Stat(filepath.Join(dir, nodeSign)); err == nil {
		return role{}, writ.Errorf(writ.CodeUsage,
			"%s is the data directory of a node, which has no backup: a restored node would repeat its work", dir).
			WithHint("a lost node joins again: `writ token create`, then `writ runner`")
	}
	for _, r := range roles {
		for _, sign := range r.signs {
			if _, err := os.Stat(filepath.Join(dir, sign)); err == nil {
				return r, nil
			}
		}
	}
	return role{}, writ.Errorf(writ.CodeUsage, "%s is not the data directory of a coordinator or a supervisor", dir).
		WithHint("use the --data directory of the daemon")
}

// alone returns an error if another daemon stores its data inside dir. The directory of `writ dev`, for example,
// contains nodes, and nodes must not be backed up.
func alone(ctx context.Context, dir string) error {
	signs := []string{nodeSign}
	for _, r := range roles {
		signs = append(signs, r.signs...)
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if inner := filepath.Dir(path); inner != dir && d.Type().IsRegular() && slices.Contains(signs, d.Name()) {
			return writ.Errorf(writ.CodeUsage, "%s holds the data of another daemon too, in %s", dir, inner).
				WithHint("the directory of `writ dev` contains nodes and cannot be backed up; use the --data directory of `writ coord` or `writ supervisor`")
		}
		return nil
	})
}

// Save writes a backup of dir into a new file. Only the owner may read the file, because it contains keys.
func Save(ctx context.Context, dir, file, version string) (m Manifest, err error) {
	dir = filepath.Clean(dir)
	r, err := roleOf(dir)
	if err != nil {
		return m, err
	}
	if err := alone(ctx, dir); err != nil {
		return m, err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return m, writ.Errorf(writ.CodeUsage, "%s already exists; a backup never overwrites a file", file).
			WithHint("choose another name, for example one with the date")
	}
	if err != nil {
		return m, writ.Errorf(writ.CodeUsage, "make the backup: %v", err).
			WithHint("FILE is the backup to write; its directory must exist and be writable for you")
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(fmt.Errorf("make the backup: %w", err), os.Remove(file))
		}
	}()
	m = Manifest{Format: format, Role: r.name, Made: time.Now().UTC().Truncate(time.Second), Version: version}
	w := writer{tar: tar.NewWriter(out), sums: sums{}}
	if err := w.addManifest(m); err != nil {
		return m, err
	}
	if err := w.addStore(ctx, r, dir, filepath.Dir(file)); err != nil {
		return m, err
	}
	if err := w.addFiles(ctx, r, dir); err != nil {
		return m, err
	}
	if err := w.addText(sumsName, w.sums.text(), m.Made); err != nil {
		return m, err
	}
	if err := w.tar.Close(); err != nil {
		return m, err
	}
	return m, out.Sync()
}

// writer writes a backup and records the digests of its files.
type writer struct {
	tar  *tar.Writer
	sums sums
}

func (w *writer) addManifest(m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return w.addText(manifestName, text, m.Made)
}

func (w *writer) addText(name string, text []byte, at time.Time) error {
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: at}); err != nil {
		return err
	}
	_, err := w.tar.Write(text)
	return err
}

// addStore adds a snapshot of the store. It writes the snapshot to a new subdirectory of the directory `beside`, which
// may contain files of the user. A store in PostgreSQL has no file and is skipped.
func (w *writer) addStore(ctx context.Context, r role, dir, beside string) (err error) {
	from := filepath.Join(dir, r.store)
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	scratch, err := os.MkdirTemp(beside, ".writ-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	copied := filepath.Join(scratch, r.store)
	if err := r.copied(ctx, from, copied); err != nil {
		return fmt.Errorf("copy the store: %w", err)
	}
	return w.addFile(copied, r.store)
}

// addFiles adds all regular files except the store and its auxiliary files.
func (w *writer) addFiles(ctx context.Context, r role, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(name, r.store) {
			return err
		}
		return w.addFile(path, filepath.ToSlash(name))
	})
}

func (w *writer) addFile(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.tar.WriteHeader(&tar.Header{
		Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime(),
	}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w.tar, sum), f, info.Size()); err != nil {
		return fmt.Errorf("copy %s: %w", path, err)
	}
	w.sums.add(name, sum)
	return nil
}

// Restore restores a data directory from a backup. The directory must be empty or missing.
func Restore(ctx context.Context, file, dir string) (m Manifest, err error) {
	in, err := os.Open(file)
	if err != nil {
		return m, writ.Errorf(writ.CodeUsage, "read the backup: %v", err).
			WithHint("FILE must be a file written by `writ backup`")
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() { // the size of the backup limits the restored files
		return m, errors.Join(err, writ.Errorf(writ.CodeUsage, "%s is not a regular file", file).
			WithHint("copy the backup into a file first"))
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return m, writ.Errorf(writ.CodeConflict, "%s is not empty", dir).
			WithHint("move it away first, and keep it: it may be newer than the backup")
	}
	r := tar.NewReader(in)
	if m, err = readManifest(r); err != nil {
		return m, err
	}
	if err := config.MakeData(dir); err != nil {
		return m, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer root.Close()
	err = restoreFiles(ctx, root, r, info.Size())
	if err == nil && m.Role == Supervisor {
		err = writeMark(dir)
	}
	if err != nil {
		damaged := writ.Errorf(writ.CodeUsage, "restore %s: %v", file, err).
			WithHint("the files in %s were removed again; use another backup", dir)
		return m, errors.Join(damaged, empty(root))
	}
	return m, nil
}

// restoreFiles writes every file and then compares the digests with the list at the end of the backup. Without the
// list, a tar file truncated between two files would look complete. The files may have at most size bytes together,
// because a small sparse tar file could expand to files that fill the disk.
func restoreFiles(ctx context.Context, root *os.Root, r *tar.Reader, size int64) error {
	restored, left := sums{}, space{bytes: size, dirs: make(map[string]bool)}
	for {
		h, err := r.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return errors.New("the file is truncated")
		case err != nil:
			return err
		case h.Name == sumsName:
			return restored.compare(io.LimitReader(r, maxSums))
		}
		if err := left.reserve(h); err != nil {
			return err
		}
		if err := restoreFile(root, h, r, restored); err != nil {
			return err
		}
	}
}

// RestoredMark is a file next to the supervisor's key. It marks the journal as restored from a backup. A starting
// supervisor applies the mark, unless it has applied a mark with the same text before.
const RestoredMark = "journal.restored"

// Mark records that the journal of the supervisor in dir was restored without Restore, for example from a snapshot of
// its disk, machine or database.
func Mark(dir string) error {
	r, err := roleOf(dir)
	if err != nil {
		return err
	}
	if r.name != Supervisor {
		return writ.Errorf(writ.CodeUsage,
			"%s belongs to a coordinator, which detects by itself that its ledger came from a backup", dir).
			WithHint("use the --data directory of the supervisor")
	}
	return writeMark(dir)
}

func writeMark(dir string) error {
	if err := config.WriteFile(filepath.Join(dir, RestoredMark),
		[]byte("the journal came from a backup: "+writ.NewUUID()+"\n")); err != nil {
		return writ.Errorf(writ.CodeUsage, "write the mark of a restored journal: %v", err)
	}
	return nil
}

// empty removes all files from a directory that was empty before, so that no daemon starts with partial data.
func empty(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return err
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
		return m, writ.Errorf(writ.CodeUsage, "this is not a backup of writ: %v", err).
			WithHint("FILE must be a file written by `writ backup`")
	}
	if m.Format != format {
		return m, writ.Errorf(writ.CodeUsage, "the backup has format %d, this program knows %d", m.Format, format).
			WithHint("use the writ that made it: %s", m.Version)
	}
	return m, nil
}

// restoreFile writes one file. os.Root prevents names from escaping the directory.
func restoreFile(root *os.Root, h *tar.Header, content io.Reader, restored sums) (err error) {
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
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), content); err != nil {
		return err
	}
	restored.add(h.Name, sum)
	return f.Sync()
}
