package libraries

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is how many links lead to a file at most, as in the kernel.
const maxLinks = 40

// Tree are the files of packages as a machine has them that they are installed on: links may begin at its root, and directories such as /bin and
// /lib are those below /usr, wherever a package has them.
type Tree struct{ files fs.FS }

// NewTree returns the tree of files; they may be nil if there are none.
func NewTree(files fs.FS) Tree { return Tree{files} }

// Read reads a file, and returns its name without links.
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

// follow returns the name of a file without links.
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

// walk goes through the elements of a name, and on from where a link leads to.
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
