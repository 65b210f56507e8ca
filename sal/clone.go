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

// CopyFile copies the content of the file `from` into the empty file `to`. It shares blocks where the disk supports
// that, and keeps holes. It stops soon after ctx ends and reports its progress to the function set by Telling. The copy
// is not synced.
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

// copyChunk is the number of bytes copied between two checks of the context. Even a slow disk copies it in
// milliseconds.
const copyChunk = 1 << 20

func copyRange(ctx context.Context, to, from *os.File, start, end int64, far func(int64)) error {
	chunk := make([]byte, min(copyChunk, end-start))
	for at := start; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.ReadAt(chunk[:min(copyChunk, end-at)], at)
		if _, err := to.WriteAt(chunk[:n], at); err != nil { // io.Copy would use copy_file_range, which may share blocks
			return err
		}
		at += int64(n)
		far(at)
		if errors.Is(err, io.EOF) {
			return nil // the file was truncated during the copy
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clone implements Trees.Clone for any disk: it copies a file with CopyFile to a path that does not exist, extends the
// copy to at least size bytes, and syncs it. The copy appears under its name only when it is complete. The next attempt
// replaces the temporary file that a crash left.
func Clone(ctx context.Context, from, to string, size int64, step func(name string)) (err error) {
	if step == nil {
		step = func(string) {}
	}
	if _, err := os.Lstat(to); err == nil {
		return writ.Errorf(writ.CodeResourceConflict, "%s already exists", to)
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
	if err := os.Link(part, to); err != nil { // a rename would replace a file created meanwhile
		return err
	}
	if err := os.Remove(part); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

//failpoint:none the caller names the write
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
