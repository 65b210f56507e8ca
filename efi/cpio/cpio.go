// Package cpio writes the archives that Linux unpacks into memory at boot, in the "newc" format of the kernel's
// initramfs documentation. The output is reproducible: entries are sorted, have no timestamps and belong to root. The
// package does not depend on the purpose of the files.
package cpio

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// File types in a Unix mode.
const (
	typeMask    = 0o170000
	typeDir     = 0o040000
	typeRegular = 0o100000
	typeSymlink = 0o120000
)

// trailer is the name of the last entry of an archive.
const trailer = "TRAILER!!!"

// Archive collects entries. The zero value is an empty archive.
type Archive struct {
	entries map[string]entry
}

// entry is a file, a directory or a symbolic link. The data of a link is its target.
type entry struct {
	mode uint32
	data []byte
}

// File adds a regular file. Missing parent directories are added with mode 0755.
func (a *Archive) File(name string, perm fs.FileMode, data []byte) error {
	return a.add(name, typeRegular|uint32(perm.Perm()), data)
}

// Dir adds an empty directory.
func (a *Archive) Dir(name string, perm fs.FileMode) error {
	return a.add(name, typeDir|uint32(perm.Perm()), nil)
}

// Symlink adds a symbolic link.
func (a *Archive) Symlink(name, target string) error {
	if target == "" || strings.ContainsRune(target, 0) {
		return fmt.Errorf("add the link %s to an archive: the target %q is invalid", name, target)
	}
	return a.add(name, typeSymlink|0o777, []byte(target))
}

func (a *Archive) add(name string, mode uint32, data []byte) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || name == trailer {
		return fmt.Errorf("add %q to an archive: names are relative, without empty elements and dots", name)
	}
	if len(data) > math.MaxUint32 {
		return fmt.Errorf("add %s to an archive: it has %d bytes, and the format allows less than 4 GiB", name,
			len(data))
	}
	if there, ok := a.entries[name]; ok && (there.mode != mode || !bytes.Equal(there.data, data)) {
		return fmt.Errorf("add %s to an archive: it already exists with other content or another mode", name)
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if there, ok := a.entries[above]; !ok {
			a.put(above, entry{mode: typeDir | 0o755})
		} else if there.mode&typeMask != typeDir {
			return fmt.Errorf("add %s to an archive: %s is not a directory", name, above)
		}
	}
	a.put(name, entry{mode, data})
	return nil
}

func (a *Archive) put(name string, e entry) {
	if a.entries == nil {
		a.entries = map[string]entry{}
	}
	a.entries[name] = e
}

// WriteTo writes the archive. Directories precede their content, because the kernel does not create missing
// directories.
func (a *Archive) WriteTo(w io.Writer) (n int64, err error) {
	out := &counter{w: w}
	for i, name := range slices.Sorted(maps.Keys(a.entries)) {
		if err := out.entry(uint32(i+1), name, a.entries[name]); err != nil {
			return out.n, err
		}
	}
	return out.n, out.entry(0, trailer, entry{})
}

// counter counts written bytes. The parts of an entry are aligned to four bytes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func (c *counter) align() error {
	_, err := c.Write(make([]byte, -c.n&3))
	return err
}

// entry writes an entry: a header of hexadecimal numbers, the name and the data.
func (c *counter) entry(inode uint32, name string, e entry) error {
	links := uint32(1)
	if e.mode&typeMask == typeDir {
		links = 2
	}
	header := []uint32{
		inode, e.mode, 0, 0, links,
		0, // mtime
		uint32(len(e.data)),
		0, 0, 0, 0, // devices
		uint32(len(name) + 1),
		0, // checksum, unused in this format
	}
	text := []byte("070701")
	for _, field := range header {
		text = fmt.Appendf(text, "%08X", field)
	}
	text = append(append(text, name...), 0)
	if _, err := c.Write(text); err != nil {
		return err
	}
	if err := c.align(); err != nil {
		return err
	}
	if _, err := c.Write(e.data); err != nil {
		return err
	}
	return c.align()
}
