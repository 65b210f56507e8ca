package guest

import (
	"bytes"
	"fmt"
)

// archive is a cpio archive in the format for kernels ("newc").
type archive struct {
	b    bytes.Buffer
	inos int
}

// File types with their permissions.
const (
	kindDir    = 0o040755
	kindFile   = 0o100755
	kindDevice = 0o020600 // a character device
)

func (a *archive) dir(name string) { a.add(name, kindDir, nil, 0, 0) }

func (a *archive) file(name string, content []byte) { a.add(name, kindFile, content, 0, 0) }

func (a *archive) device(name string, major, minor int) { a.add(name, kindDevice, nil, major, minor) }

// add appends a file; its name has no leading slash.
func (a *archive) add(name string, mode int, content []byte, major, minor int) {
	a.inos++
	const links, none = 1, 0
	fmt.Fprintf(&a.b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", a.inos, mode, none, none, links, none,
		len(content), none, none,
		major, minor, len(name)+1, none)
	a.b.WriteString(name + "\x00")
	a.align()
	a.b.Write(content)
	a.align()
}

func (a *archive) align() {
	for a.b.Len()%4 != 0 {
		a.b.WriteByte(0)
	}
}

// bytes finishes the archive and returns it.
func (a *archive) bytes() []byte {
	a.add("TRAILER!!!", 0, nil, 0, 0)
	return a.b.Bytes()
}
