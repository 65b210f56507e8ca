package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"writ"
	"writ/internal/ctxio"
	"writ/sal"
)

// unpacking reads an archive whose content an attacker may have chosen. Its memory does not grow with the number of
// entries.
type unpacking struct {
	fits    func(bytes int64) error // returns an error if the volume has no room for bytes
	step    func(name string)
	root    *os.Root // of the volume; no file is written outside
	written int64    // bytes of files, without holes
	open    openDirs
}

// unpack fills a directory from an archive and syncs it.
func (u *unpacking) unpack(ctx context.Context, dir string, from io.Reader) (err error) {
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer u.root.Close()
	archive := tar.NewReader(&ctxio.Reader{Ctx: ctx, From: from})
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := u.fits(h.Size); err != nil { // holes count, because they may be filled later
			return err
		}
		if err := u.entry(h, &ctxio.Reader{Ctx: ctx, From: archive}); err != nil { // the inner reader is not used for holes
			return err
		}
	}
	if err := u.leave(""); err != nil {
		return err
	}
	u.step("sync the content")
	return syncAll(dir)
}

func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("its entry %q is outside the volume", h.Name)
	}
	h.Name = name
	if err := u.leave(name); err != nil {
		return err
	}
	if in := path.Dir(name); in != "." && in != u.open.path {
		return fmt.Errorf("its entry %q does not follow its directory", name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.directory(h)
	case tar.TypeSymlink:
		u.step("link " + path.Base(name))
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.chown(name, h.Uid, h.Gid)
	case tar.TypeLink:
		if !filepath.IsLocal(h.Linkname) {
			return fmt.Errorf("its entry %q leads to %q", h.Name, h.Linkname)
		}
		u.step("link " + path.Base(name))
		return u.root.Link(h.Linkname, name)
	case tar.TypeFifo:
		u.step("make " + path.Base(name))
		if err := u.pipe(name); err != nil {
			return err
		}
		return u.setMetadata(name, metadataOf(h))
	case tar.TypeReg:
		u.step("write " + path.Base(name))
		if err := u.file(name, content, h.Size); err != nil {
			return err
		}
		return u.setMetadata(name, metadataOf(h))
	default:
		return fmt.Errorf("its entry %q is not a file, directory, link or pipe", h.Name)
	}
}

func (u *unpacking) pipe(name string) error {
	d, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(sal.MakePipe(d, path.Base(name)), d.Close())
}

// page is the unit in which holes are detected.
const page = 4 << 10

var zeros [page]byte

// file writes a new file, with holes in place of zero pages.
func (u *unpacking) file(name string, content io.Reader, size int64) (err error) {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, min(1<<20, size))
	for at := int64(0); at < size; {
		part := block[:min(int64(len(block)), size-at)]
		if _, err := io.ReadFull(content, part); err != nil {
			return err
		}
		n, err := writeHoled(f, part, at)
		u.written += n
		if err := errors.Join(err, u.fits(u.written)); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return f.Truncate(size)
}

// writeHoled writes the pages that contain data, adjacent pages in one write.
func writeHoled(f *os.File, text []byte, at int64) (written int64, err error) {
	begun := 0 // start of the pages to write
	flush := func(end int) {
		if begun < end && err == nil {
			_, err = f.WriteAt(text[begun:end], at+int64(begun))
			written += int64(end - begun)
		}
	}
	for i := 0; i < len(text); {
		end := min(i+page, len(text))
		if bytes.Equal(text[i:end], zeros[:end-i]) {
			flush(i)
			begun = end
		}
		i = end
	}
	flush(len(text))
	return written, err
}

// directory creates a directory. Its metadata is set after the last entry of the directory, except for attributes that
// can be large.
func (u *unpacking) directory(h *tar.Header) error {
	if h.Name != "." {
		u.step("make " + path.Base(h.Name))
		if err := u.root.Mkdir(h.Name, 0o700); err != nil {
			return err
		}
	}
	m := metadataOf(h)
	now := maps.Clone(m.attributes)
	maps.DeleteFunc(now, func(name, _ string) bool { return setAfterContent(name) })
	maps.DeleteFunc(m.attributes, func(name, _ string) bool { return !setAfterContent(name) })
	if err := u.attributes(h.Name, now); err != nil {
		return err
	}
	return u.open.enter(h.Name, m)
}

// leave sets the metadata of the open directories that do not contain the entry `next`. An empty `next` means all of
// them.
func (u *unpacking) leave(next string) error {
	for {
		name, m, left := u.open.leave(next)
		if !left {
			break
		}
		if err := u.setMetadata(name, m); err != nil {
			return err
		}
	}
	if next == "" && u.open.root != nil {
		return u.setMetadata(".", *u.open.root)
	}
	return nil
}

// setMetadata sets the metadata of an entry. It sets attributes after the owner, because changing the owner removes
// some attributes, and before the mode, which may forbid setting attributes.
func (u *unpacking) setMetadata(name string, m metadata) error {
	if err := u.chown(name, m.uid, m.gid); err != nil {
		return err
	}
	if err := u.attributes(name, m.attributes); err != nil {
		return err
	}
	if err := u.root.Chmod(name, m.mode); err != nil {
		return err
	}
	return u.root.Chtimes(name, time.Time{}, m.modified)
}

// chown sets the owner if the node runs as root.
func (u *unpacking) chown(name string, uid, gid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return u.root.Lchown(name, uid, gid)
}

func (u *unpacking) attributes(name string, all map[string]string) error {
	if len(all) == 0 {
		return nil
	}
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	for attribute, value := range all {
		if err := sal.SetAttribute(f, attribute, value); err != nil {
			return errors.Join(fmt.Errorf("set the attribute %s of %s: %w", attribute, name, err), f.Close())
		}
	}
	return f.Close()
}

// isHostError reports whether an error concerns the host, the volume's size or the context, and not the archive.
func isHostError(err error) bool {
	if _, ok := errors.AsType[*writ.Error](err); ok {
		return true
	}
	all := []error{
		context.Canceled, context.DeadlineExceeded,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EACCES,
		syscall.EPERM,
	}
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}
