// Package cpio writes the archives that Linux unpacks into memory when it starts: "newc", as the kernel's documentation of initramfs describes
// it. The same files make the same bytes, whatever the order in which they were added: entries are sorted, and have no times and no owners but
// root. It must not know what the files are for.
package cpio

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
)

// Types of files, as in the mode of a Unix file.
const (
	typeMask    = 0o170000
	typeDir     = 0o040000
	typeRegular = 0o100000
	typeSymlink = 0o120000
)

// trailer is the name of the entry that ends an archive.
const trailer = "TRAILER!!!"

// Archive is what will be written. The zero value is an empty one.
type Archive struct {
	entries map[string]entry
}

// entry is a file, a directory, or a symbolic link whose data is its target.
type entry struct {
	mode uint32
	data []byte
}

// File adds a regular file. The directories above it are added with mode 0755 if they are not there.
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
		return fmt.Errorf("add the link %s to an archive: %q is no target", name, target)
	}
	return a.add(name, typeSymlink|0o777, []byte(target))
}

func (a *Archive) add(name string, mode uint32, data []byte) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || name == trailer {
		return fmt.Errorf("add %q to an archive: names are relative, without empty elements and dots", name)
	}
	if len(data) > math.MaxUint32 {
		return fmt.Errorf("add %s to an archive: it has %d bytes, and the format has room for less than 4 GiB", name, len(data))
	}
	if there, ok := a.entries[name]; ok && (there.mode != mode || !bytes.Equal(there.data, data)) {
		return fmt.Errorf("add %s to an archive: it is there with other content or another mode", name)
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if there, ok := a.entries[above]; !ok {
			a.put(above, entry{mode: typeDir | 0o755})
		} else if there.mode&typeMask != typeDir {
			return fmt.Errorf("add %s to an archive: %s is no directory", name, above)
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

// WriteTo writes the archive. A directory comes before what is in it, as the kernel makes none by itself.
func (a *Archive) WriteTo(w io.Writer) (n int64, err error) {
	names := make([]string, 0, len(a.entries))
	for name := range a.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	out := &counter{w: w}
	for i, name := range names {
		if err := out.entry(uint32(i+1), name, a.entries[name]); err != nil {
			return out.n, err
		}
	}
	return out.n, out.entry(0, trailer, entry{})
}

// counter counts what is written, because the parts of an entry begin at multiples of four.
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

// entry writes one entry: a header of hexadecimal numbers, the name, the data.
func (c *counter) entry(inode uint32, name string, e entry) error {
	links := uint32(1)
	if e.mode&typeMask == typeDir {
		links = 2
	}
	header := []uint32{
		inode, e.mode, 0, 0, links,
		0, // the time of the last change
		uint32(len(e.data)),
		0, 0, 0, 0, // devices
		uint32(len(name) + 1),
		0, // a checksum, which this form has not
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
