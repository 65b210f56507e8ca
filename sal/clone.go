package sal

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
)

// CopyFile gives the empty file to the content of from, sharing blocks where the disk can do that and leaving holes where from has them.
// It stops soon when ctx ends, and tells those of Telling how far it is. What it wrote is not synced.
func CopyFile(ctx context.Context, to, from *os.File) error {
	if share(to, from) {
		return nil
	}
	info, err := from.Stat()
	if err != nil {
		return err
	}
	far := Far(ctx, "copied", info.Size())
	for at := int64(0); at < info.Size(); {
		start, end := Data(from, at, info.Size())
		if err := copyRange(ctx, to, from, start, end, far); err != nil {
			return err
		}
		at = end
	}
	return to.Truncate(info.Size())
}

// copyChunk is how much is copied between two looks at the context: some milliseconds of a slow disk.
const copyChunk = 1 << 20

func copyRange(ctx context.Context, to, from *os.File, start, end int64, far func(int64)) error {
	chunk := make([]byte, min(copyChunk, end-start))
	for at := start; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(chunk[:min(copyChunk, end-at)], at)
		if _, err := to.WriteAt(chunk[:n], at); err != nil { // by hand: the kernel's own copying shares blocks again
			return err
		}
		at += int64(n)
		far(at)
		if errors.Is(err, io.EOF) {
			return nil // it became shorter meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clone is sal.Trees.Clone on any disk: it copies a file with CopyFile to a path that does not exist, makes it at least size bytes long,
// and syncs it. The copy is under its name as a whole or not at all; what a crash leaves beside it is replaced by the next attempt.
func Clone(ctx context.Context, from, to string, size int64, step func(name string)) (err error) {
	if step == nil {
		step = func(string) {}
	}
	if _, err := os.Lstat(to); err == nil {
		return writ.Errorf(writ.CodeResourceConflict, "%s exists already", to)
	}
	source, err := os.Open(from)
	if err != nil {
		return HostError("open "+from, err)
	}
	defer source.Close()
	part := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".part")
	step("copy " + filepath.Base(to))
	defer func() {
		if err != nil {
			_ = os.Remove(part)
			err = HostError("copy "+from, err)
		}
	}()
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := cloneTo(ctx, part, source, size); err != nil {
		return err
	}
	step("name " + filepath.Base(to))
	if err := os.Link(part, to); err != nil { // a rename would replace what somebody put there meanwhile
		return err
	}
	if err := os.Remove(part); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

func cloneTo(ctx context.Context, path string, source *os.File, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := CopyFile(ctx, f, source); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size > info.Size() {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	return f.Sync()
}
