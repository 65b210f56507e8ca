package ociarchive

import (
	"archive/tar"
	"errors"
	"hash/maphash"
	"io"
	"path"
	"strings"
)

const (
	// blockBytes is the space of a directory, and the smallest space of a file with data: a page, the usual block of ext4
	// and btrfs. The 512-byte header of an entry in the tar file counts as the space of its inode and name.
	blockBytes = 4 << 10
	// shortLink is the longest target of a symbolic link that ext4 stores in the inode, in bytes.
	shortLink = 59
	// maxKnown limits the known paths of a layer, which take some MiB.
	maxKnown = 64 << 10
	// knownDepth is the depth up to which directories are remembered. A missing directory below it is counted again for
	// each entry in it.
	knownDepth = 16
)

// meter counts the disk space and the files of an unpacked layer.
type meter struct {
	layers *Layers
	times  int64 // occurrences of the layer in the image
	bytes  int64 // of one occurrence
	files  int64

	seed  maphash.Seed
	known map[uint64]bool // hashes of the paths of entries and of their parents; true for directories
}

func newMeter(l *Layers, times int) *meter {
	return &meter{layers: l, times: int64(times), seed: maphash.MakeSeed(), known: make(map[uint64]bool)}
}

// unpack reads the tar file of a layer to its end. The caller passes each byte of it to Write.
func (m *meter) unpack(layer io.Reader) error {
	if err := m.add(blockBytes, 1); err != nil { // the root directory
		return err
	}
	for r := tar.NewReader(layer); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := m.entry(header); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, layer) // its diff_id covers the bytes behind the end of the tar file
	return err
}

// entry counts the part of an entry that the tar file does not contain: blocks, missing parents, and the holes of a sparse
// file, which containerd writes as zeros.
func (m *meter) entry(header *tar.Header) error {
	made := int64(m.missingParents(header))
	bytes := made * blockBytes
	switch header.Typeflag {
	case tar.TypeDir:
		bytes += blockBytes
	case tar.TypeReg:
		bytes += (blockBytes - header.Size%blockBytes) % blockBytes
	case tar.TypeSymlink:
		if len(header.Linkname) > shortLink {
			bytes += blockBytes
		}
	}
	if hasRecord(header, "SCHILY.xattr.") { // ext4 has one block for the attributes of a file
		bytes += blockBytes
	}
	if isSparse(header) {
		bytes += min(header.Size, m.layers.most+1)
	}
	if header.Typeflag != tar.TypeLink {
		made++
	}
	return m.add(bytes, made)
}

// missingParents returns the number of directories above an entry that containerd has to make. Directories of earlier
// entries of the layer exist. If a layer replaces a link of an earlier layer, a known path leads to another directory,
// and some new directories are not counted; knownDepth limits their number per entry.
func (m *meter) missingParents(header *tar.Header) (missing int) {
	parts := strings.Split(path.Clean("/" + header.Name)[1:], "/")
	last := len(parts) - 1
	parts[last] = strings.TrimPrefix(parts[last], ".wh.") // prefix of an entry that removes a file
	var sum maphash.Hash
	sum.SetSeed(m.seed)
	for depth, part := range parts {
		_, _ = sum.WriteString("/" + part)
		switch hash := sum.Sum64(); {
		case depth == last:
			m.remember(hash, header.Typeflag == tar.TypeDir)
		case depth >= knownDepth:
			missing++
		case !m.known[hash]:
			m.remember(hash, true)
			missing++
		}
	}
	return missing
}

// remember adds a path. It first forgets all paths if there are too many. It also does so if the entry may replace a
// link, because paths through the link then lead elsewhere.
func (m *meter) remember(hash uint64, isDir bool) {
	was, ok := m.known[hash]
	if ok && !(was && isDir) || len(m.known) == maxKnown {
		clear(m.known)
	}
	m.known[hash] = isDir
}

// isSparse reports whether a regular file may have holes, which are not in the tar file.
func isSparse(header *tar.Header) bool { return hasRecord(header, "GNU.sparse.") }

// hasRecord reports whether a PAX record of an entry has this prefix.
func hasRecord(header *tar.Header, prefix string) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// Write counts bytes of the tar file.
func (m *meter) Write(text []byte) (int, error) {
	if err := m.add(int64(len(text)), 0); err != nil {
		return 0, err
	}
	return len(text), nil
}

// add counts bytes that unpacking writes, and files that it makes.
func (m *meter) add(bytes, files int64) error {
	m.bytes, m.files = m.bytes+bytes, m.files+files
	m.layers.bytes.Add(m.times * bytes)
	m.layers.files.Add(m.times * files)
	return m.layers.check(m.layers.bytes.Load(), m.layers.files.Load())
}
