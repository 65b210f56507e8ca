package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/internal/ctxio"
	"writ/sal"
)

// draft is the temporary file of the archive that a volume is writing. Once the archive is complete, the file is
// hard-linked to the archive's name. Until the draft is removed, it identifies the archive that this volume wrote last.
type draft struct {
	path string
	step func(name string)
}

func newDraft(b backups, volume writ.ResourceID) draft {
	return draft{filepath.Join(b.dir, "."+volume.HostName()+".part"), b.step}
}

// remove removes the draft. It ignores errors: a file that remains is harmless.
//
//failpoint:none it removes an unfinished file, which does no harm if it stays
func (d draft) remove() { _ = os.Remove(d.path) }

// removeUnnamed removes the draft unless it is also linked to the name of an archive.
func (d draft) removeUnnamed() {
	info, err := os.Lstat(d.path)
	if err != nil {
		return
	}
	others, err := os.ReadDir(filepath.Dir(d.path))
	named := slices.ContainsFunc(others, func(e fs.DirEntry) bool {
		other, err := e.Info()
		return err == nil && other.Name() != info.Name() && os.SameFile(info, other)
	})
	if err == nil && !named {
		d.remove()
	}
}

// is reports whether the draft and the archive at a path are the same file.
func (d draft) is(archive string) bool {
	info, err := os.Lstat(d.path)
	if err != nil {
		return false
	}
	other, err := os.Lstat(archive)
	return err == nil && os.SameFile(info, other)
}

// write writes an archive of a directory and returns its SHA-256.
func (d draft) write(ctx context.Context, from string, size int64) (sum string, err error) {
	d.step("make backups")
	if err := sal.MakeDir(filepath.Dir(d.path)); err != nil {
		return "", err
	}
	d.step("write the archive")
	d.remove() // after a crash it may be a second name of a complete archive, which must not be truncated
	f, err := os.OpenFile(d.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if err := pack(ctx, io.MultiWriter(f, hash, &meter{far: sal.Far(ctx, "written", size)}), from); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), f.Sync()
}

// link links the draft to the path of an archive. It returns fs.ErrExist if the path exists.
func (d draft) link(archive string) error {
	d.step("name the archive")
	if err := os.Link(d.path, archive); err != nil {
		return err
	}
	return sal.SyncDir(filepath.Dir(archive))
}

// sum returns the SHA-256 of the draft.
func (d draft) sum(ctx context.Context) (string, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, &ctxio.Reader{Ctx: ctx, From: f})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// meter counts the bytes written to it and reports them as progress.
type meter struct {
	far  func(int64)
	done int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	m.far(m.done)
	return len(p), nil
}
