package backup

import (
	"archive/tar"
	"fmt"
	"path"
)

const (
	maxFileName = 1 << 10
	maxDirs     = 1000 // two bytes of a name create a directory, which takes a block of the disk
)

// space limits the part of the disk that a restore fills.
type space struct {
	bytes int64           // remaining bytes for files
	dirs  map[string]bool // directories of the files reserved so far
}

// reserve takes the space of a file. It returns an error if the file exceeds the limits.
func (s *space) reserve(h *tar.Header) error {
	switch {
	case h.Size > s.bytes:
		return fmt.Errorf("%.100q is larger than the backup", h.Name)
	case len(h.Name) > maxFileName:
		return fmt.Errorf("the name %.100q is too long", h.Name)
	}
	s.bytes -= h.Size
	for dir := path.Dir(path.Clean(h.Name)); dir != "." && dir != "/" && !s.dirs[dir]; dir = path.Dir(dir) {
		s.dirs[dir] = true
	}
	if len(s.dirs) > maxDirs {
		return fmt.Errorf("it has more than %d directories", maxDirs)
	}
	return nil
}
