package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"unsafe"

	"writ/sal"
)

// An archive is a tar file with PAX headers, readable by tar(1). It contains directories, files, links of both kinds
// and pipes, with modes, owners, times, extended attributes and holes. Package archive/tar does not write it, because
// that package cannot write holes, and its output may change. An archive of the same tree must have the same bytes in
// every release, because an interrupted transfer resumes in the middle.

// packedSize returns the size of a directory's archive.
func packedSize(ctx context.Context, dir string) (int64, error) {
	p := &packing{out: io.Discard, counts: true}
	err := p.pack(ctx, dir)
	return p.size, err
}

// pack writes the archive of a directory. It skips sockets, which are useless without their process, and entries that
// disappear during the walk.
func pack(ctx context.Context, out io.Writer, dir string) error {
	return (&packing{out: out}).pack(ctx, dir)
}

// packing is an archive being written.
type packing struct {
	out    io.Writer
	counts bool // only count the size, without reading files
	size   int64
	root   *os.Root
	walk   *sal.Walk
	linked map[inode]string // first name of each file with several names
	chunk  []byte
}

// inode identifies a file with several names.
type inode struct{ device, number uint64 }

func (p *packing) pack(ctx context.Context, dir string) (err error) {
	if p.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer p.root.Close()
	p.linked, p.chunk = map[inode]string{}, make([]byte, 1<<20)
	p.walk = &sal.Walk{
		Root: p.root, Enter: func(name string, info fs.FileInfo) error { return p.entry(ctx, name, info) },
	}
	if err := p.walk.Run(ctx); err != nil {
		return err
	}
	return p.write(make([]byte, 2*blockSize))
}

func (p *packing) write(text []byte) error {
	p.size += int64(len(text))
	_, err := p.out.Write(text)
	return err
}

// entry writes one entry of the tree.
func (p *packing) entry(ctx context.Context, name string, info fs.FileInfo) (err error) {
	h := header{name: name, mode: int64(info.Mode().Perm()), modified: info.ModTime(), records: map[string]string{}}
	for bit, mode := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode()&bit != 0 {
			h.mode |= mode
		}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		h.uid, h.gid = int64(stat.Uid), int64(stat.Gid)
		id := inode{uint64(stat.Dev), stat.Ino}
		if first, ok := p.linked[id]; ok && !info.IsDir() {
			h.kind, h.link = '1', first
			return p.write(h.blocks())
		}
		if stat.Nlink > 1 {
			defer func() {
				if err == nil && !info.IsDir() {
					p.linked[id] = name
					err = p.walk.Hold(sal.NameMemory(name) + int64(unsafe.Sizeof(id)))
				}
			}()
		}
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.kind, h.name = '5', path.Clean(name)+"/"
		return p.directory(name, h)
	case fs.ModeSymlink:
		h.kind = '2'
		if h.link, err = p.root.Readlink(name); err != nil {
			return err
		}
		return p.write(h.blocks())
	case fs.ModeNamedPipe:
		h.kind = '6'
		return p.write(h.blocks())
	case fs.ModeSocket:
		return nil
	case 0:
		h.kind = '0'
		return p.file(ctx, name, h)
	default:
		return fmt.Errorf("%s is not a file, directory, link or pipe", name)
	}
}

func (p *packing) directory(name string, h header) error {
	d, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := h.attributes(d); err != nil {
		return err
	}
	return p.write(h.blocks())
}

func (p *packing) file(ctx context.Context, name string, h header) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		return err
	}
	defer f.Close()
	if err := h.attributes(f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	extents, list := extentsOf(f, info.Size()), []byte(nil)
	if whole := []extent{{0, info.Size()}}; info.Size() > 0 && !slices.Equal(extents, whole) {
		list = h.sparse(extents, info.Size())
	}
	h.size = int64(len(list))
	for _, e := range extents {
		h.size += e.length
	}
	if err := p.write(append(h.blocks(), list...)); err != nil {
		return err
	}
	for _, e := range extents {
		if err := p.data(ctx, f, e); err != nil {
			return err
		}
	}
	return p.write(make([]byte, padding(h.size)))
}

// data writes one extent of a file.
func (p *packing) data(ctx context.Context, f *os.File, e extent) error {
	if p.counts {
		p.size += e.length
		return nil
	}
	for at, end := e.start, e.start+e.length; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.ReadAt(p.chunk[:min(int64(len(p.chunk)), end-at)], at)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s was truncated while it was read", f.Name())
			}
			return err
		}
		if err := p.write(p.chunk[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
