package libraries

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is the maximum number of symbolic links on the way to a file, as in the kernel.
const maxLinks = 40

// Tree presents the files of packages as on an installed system: absolute links start at its root, and directories such
// as /bin and /lib are the same as /usr/bin and /usr/lib.
type Tree struct{ files fs.FS }

// NewTree returns the tree of files, which may be nil.
func NewTree(files fs.FS) Tree { return Tree{files} }

// Read reads a file and returns its name with links resolved.
func (t Tree) Read(name string) (data []byte, from string, err error) {
	if t.files == nil {
		return nil, "", fs.ErrNotExist
	}
	links := maxLinks
	if from, err = t.follow(inside(name), &links); err != nil {
		return nil, "", err
	}
	data, err = fs.ReadFile(t.files, from)
	return data, from, err
}

func inside(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// follow resolves the links of a name, with /usr merged.
func (t Tree) follow(name string, links *int) (string, error) {
	found, err := t.walk(name, links)
	if err != nil {
		if merged, ok := strings.CutPrefix(name, "usr/"); ok {
			return t.walk(merged, links)
		}
		return t.walk("usr/"+name, links)
	}
	return found, nil
}

// walk resolves a name element by element.
func (t Tree) walk(name string, links *int) (string, error) {
	at := "."
	for rest := name; rest != ""; {
		var element string
		element, rest, _ = strings.Cut(rest, "/")
		next := path.Join(at, element)
		info, err := fs.Lstat(t.files, next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := fs.ReadLink(t.files, next)
		if err != nil {
			return "", err
		}
		if *links--; *links < 0 {
			return "", fmt.Errorf("%s: too many links", name)
		}
		if !path.IsAbs(target) {
			target = path.Join("/", at, target)
		}
		return t.follow(inside(path.Join(target, rest)), links)
	}
	return at, nil
}
