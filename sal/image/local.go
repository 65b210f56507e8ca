package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/ctxio"
)

// localFile is the origin of a part that is copied from a file of this node.
type localFile struct {
	*part
	dirs []string // see Driver.Dirs
}

// fill reads the file, always from its start. It first verifies the digest: a file with another digest must look like a
// missing file. So it copies no bytes before it has verified the digest: both the free disk space and the progress
// would reveal the copy.
func (l *localFile) fill(ctx context.Context) error {
	f, err := l.openVerified(ctx)
	if err != nil {
		return l.unavailable(ctx, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := l.expect(info.Size()); err != nil {
		return err
	}
	_, err = io.Copy(l, &ctxio.Reader{Ctx: ctx, From: f})
	return err
}

// unavailable returns the single error for files that the node does not provide, unless the context ended: scripts
// of every project may name any path.
func (l *localFile) unavailable(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return l.refuse(ctx, "file", why,
		writ.Errorf(writ.CodeNotFound, "the node provides no file %s with the SHA-256 %s", l.args.URL, l.args.SHA256).
			WithHint("it must be a readable file with this SHA-256, below a directory of `writ runner --image-dir`; the "+
				"node's log has the cause"))
}

// mismatch implements origin: the file changed after its digest was verified.
func (l *localFile) mismatch(ctx context.Context) error {
	return l.unavailable(ctx, otherDigest(l.digest(), l.args.SHA256))
}

// openVerified opens the file that the URL names, if it has the requested digest.
func (l *localFile) openVerified(ctx context.Context) (f *os.File, err error) {
	f, size, err := l.open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	most, err := l.budget.most(filepath.Dir(l.to))
	if err != nil {
		return nil, err
	}
	if size > most { // reject it before reading for hours
		return nil, fmt.Errorf("it has %s, and the limit for images on this node is %s", amount(size), amount(most))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(&ctxio.Reader{Ctx: ctx, From: f}, size+1)); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != l.args.SHA256 {
		return nil, otherDigest(got, l.args.SHA256)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// open opens the file that the URL names, below one of the permitted directories. Symbolic links cannot lead out of
// these directories.
func (l *localFile) open() (f *os.File, size int64, err error) {
	u, err := url.Parse(l.args.URL)
	if err != nil {
		return nil, 0, err
	}
	path, failed := filepath.Clean(u.Path), errors.New("it is not below a directory of --image-dir")
	for _, dir := range l.dirs {
		name, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		if f, size, err = openBelow(dir, name); err == nil {
			return f, size, nil
		}
		failed = err
	}
	return nil, 0, failed
}

// openBelow opens a regular file below a directory. It checks the type before it opens the file, because opening a
// device may have side effects.
func openBelow(dir, name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	before, err := root.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !before.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // opening a pipe must not block
	if err != nil {
		return nil, 0, err
	}
	after, err := f.Stat()
	if err == nil && !after.Mode().IsRegular() {
		err = errors.New("it was replaced and is not a regular file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, after.Size(), nil
}
