package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"writ"
	"writ/sal"
)

// unpacking is an archive that is being read.
type unpacking struct {
	fits    func(bytes int64) error // reports whether so much may be in the volume
	step    func(name string)
	root    *os.Root // of the volume: nothing is written elsewhere, whatever the archive says
	written int64    // bytes of files, without holes
}

// unpack fills a directory from an archive, and returns when all of it is on disk.
func (u *unpacking) unpack(ctx context.Context, dir string, from io.Reader) (err error) {
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer u.root.Close()
	archive := tar.NewReader(&endingReader{ctx, from})
	var dirs []*tar.Header // their modes and times come last, when nothing is written into them any more
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := u.fits(h.Size); err != nil { // holes or not, it could be filled up
			return err
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
		if err := u.entry(h, &endingReader{ctx, archive}); err != nil { // the zeros of holes do not come through the one below
			return err
		}
	}
	for _, h := range slices.Backward(dirs) {
		if err := u.dress(h); err != nil {
			return err
		}
	}
	u.step("sync the content")
	return syncAll(dir)
}

func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("it has an entry %q", h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if name == "." {
			return nil
		}
		u.step("make " + path.Base(name))
		return u.root.Mkdir(name, 0o700)
	case tar.TypeSymlink:
		u.step("link " + path.Base(name))
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.chown(h)
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
		return u.dress(h)
	case tar.TypeReg:
		u.step("write " + path.Base(name))
		if err := u.file(name, content, h.Size); err != nil {
			return err
		}
		return u.dress(h)
	default:
		return fmt.Errorf("its entry %q is neither file, directory, link nor pipe", h.Name)
	}
}

func (u *unpacking) pipe(name string) error {
	d, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(sal.MakePipe(d, path.Base(name)), d.Close())
}

// page is the unit in which holes are found again.
const page = 4 << 10

var zeros [page]byte

// file writes a new file; where its content has nothing but zeros, it has a hole.
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

// writeHoled writes the pages at an offset that are not all zeros, as many at once as follow each other.
func writeHoled(f *os.File, text []byte, at int64) (written int64, err error) {
	begun := 0 // of what is yet to be written
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

// dress gives a thing the owner, mode, attributes and time that the archive has of it.
func (u *unpacking) dress(h *tar.Header) error {
	if err := u.chown(h); err != nil {
		return err
	}
	if err := u.attributes(h); err != nil { // after the owner, who takes some away, and before a mode that allows nothing
		return err
	}
	if err := u.root.Chmod(h.Name, h.FileInfo().Mode()); err != nil {
		return err
	}
	return u.root.Chtimes(h.Name, time.Time{}, h.ModTime)
}

// chown gives it the owner, which only root may do.
func (u *unpacking) chown(h *tar.Header) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return u.root.Lchown(h.Name, h.Uid, h.Gid)
}

func (u *unpacking) attributes(h *tar.Header) error {
	const prefix = "SCHILY.xattr."
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, prefix)
		if !ok || !sal.IsAttribute(name) || h.Typeflag == tar.TypeFifo {
			continue
		}
		f, err := u.root.Open(h.Name)
		if err != nil {
			return err
		}
		if err := errors.Join(sal.SetAttribute(f, name, value), f.Close()); err != nil {
			return fmt.Errorf("set the attribute %s of %s: %w", name, h.Name, err)
		}
	}
	return nil
}

// ofHost reports whether an error is not about an archive but about the host, the volume's room or the context.
func ofHost(err error) bool {
	if _, ok := errors.AsType[*writ.Error](err); ok {
		return true
	}
	all := []error{
		context.Canceled, context.DeadlineExceeded,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM,
	}
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}
