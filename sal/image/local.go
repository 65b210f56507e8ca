package image

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"writ"
)

// fromFile reads a file of this node, from its start each time.
func (p *part) fromFile(ctx context.Context) error {
	f, size, err := p.openLocal()
	if err != nil {
		p.log(ctx, err)
		// One sentence for whatever is in the way: scripts of every project may name any path.
		return writ.Errorf(writ.CodeNotFound, "the node gives out no file %s", p.args.URL).
			WithHint("it must be a readable file below a directory that the node's operator names with writ runner --image-dir; the node's " +
				"log says what is in the way")
	}
	defer f.Close()
	if err := p.fits(size); err != nil {
		return err
	}
	_, err = io.Copy(p, &patient{ctx: ctx, from: f})
	return err
}

// openLocal opens the file that the URL names, below one of the directories that are open to images. No link leads out of them.
func (p *part) openLocal() (f *os.File, size int64, err error) {
	u, err := url.Parse(p.args.URL)
	if err != nil {
		return nil, 0, err
	}
	path, failed := filepath.Clean(u.Path), errors.New("it is below no directory of --image-dir")
	for _, dir := range p.Dirs {
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

// openBelow opens a regular file below a directory. What it finds is looked at before it is opened: a device may act on being opened.
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
		return nil, 0, errors.New("it is no regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // a pipe in its place would wait
	if err != nil {
		return nil, 0, err
	}
	after, err := f.Stat()
	if err == nil && !after.Mode().IsRegular() {
		err = errors.New("it is no regular file any more")
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, after.Size(), nil
}
