package volume

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"writ/sal"
)

// maxHeldAttributes limits the attributes that are held in memory until the end of their directories, in bytes.
const maxHeldAttributes = 16 << 20

// attributePrefix is the prefix of PAX records for extended attributes.
const attributePrefix = "SCHILY.xattr."

// metadata holds the properties that are set on an entry after its content.
type metadata struct {
	uid, gid   int
	mode       fs.FileMode
	modified   time.Time
	attributes map[string]string
}

func metadataOf(h *tar.Header) metadata {
	return metadata{uid: h.Uid, gid: h.Gid, mode: h.FileInfo().Mode(), modified: h.ModTime, attributes: attributesOf(h)}
}

// attributesOf returns the extended attributes of an entry that sal.IsAttribute accepts. The strings share the memory
// of the header.
func attributesOf(h *tar.Header) map[string]string {
	all := map[string]string{}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, attributePrefix); ok && sal.IsAttribute(name) &&
			h.Typeflag != tar.TypeFifo {
			all[name] = value
		}
	}
	return all
}

// setAfterContent reports whether an attribute of a directory must be set after its content: access lists affect new
// entries.
func setAfterContent(attribute string) bool { return !strings.HasPrefix(attribute, "user.") }

// openDirs holds the directories from the root of an archive to the current entry. The entries of an archive are in the
// order of a walk, so all other directories are complete and memory depends only on the depth of the tree.
type openDirs struct {
	path string // path of the innermost directory, "" for none
	dirs []openDir
	root *metadata // metadata of the volume itself, nil without an entry for it
	held int       // bytes of attributes
}

// openDir is a directory. Its path is the first length bytes of openDirs.path.
type openDir struct {
	length int
	metadata
}

// enter adds a directory, which becomes the innermost directory.
func (o *openDirs) enter(name string, m metadata) error {
	kept := map[string]string{}
	for attribute, value := range m.attributes {
		o.held += len(value)
		kept[strings.Clone(attribute)] = strings.Clone(value)
	}
	if o.held > maxHeldAttributes {
		return fmt.Errorf("its directories down to %q have more than %d MiB of access lists", path.Base(name),
			maxHeldAttributes>>20)
	}
	m.attributes = kept
	if name == "." {
		if o.root != nil {
			return errors.New("it contains its root directory twice")
		}
		o.root = &m
		return nil
	}
	o.path = strings.Clone(name)
	o.dirs = append(o.dirs, openDir{len(name), m})
	return nil
}

// leave removes the innermost directory unless it contains the entry `next`. `left` reports whether it removed a
// directory.
func (o *openDirs) leave(next string) (name string, m metadata, left bool) {
	if len(o.dirs) == 0 || strings.HasPrefix(next, o.path+"/") {
		return "", metadata{}, false
	}
	name, m = o.path, o.dirs[len(o.dirs)-1].metadata
	o.dirs = o.dirs[:len(o.dirs)-1]
	for _, value := range m.attributes {
		o.held -= len(value)
	}
	o.path = ""
	if n := len(o.dirs); n > 0 {
		o.path = name[:o.dirs[n-1].length]
	}
	return name, m, true
}
