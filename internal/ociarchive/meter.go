package ociarchive

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
)

// meter counts the disk space of an unpacked layer.
type meter struct {
	layers *Layers
	times  int64 // occurrences of the layer in the image
	bytes  int64 // of one occurrence
}

// unpack reads the tar file of a layer to its end. The caller passes each byte of it to Write.
func (m *meter) unpack(layer io.Reader) error {
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

// entry counts the part of an entry that the tar file does not contain. containerd writes the holes of a sparse file as
// zeros.
func (m *meter) entry(header *tar.Header) error {
	if isSparse(header) {
		return m.add(header.Size)
	}
	return nil
}

// isSparse reports whether a regular file may have holes, which are not in the tar file.
func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Write counts bytes of the tar file.
func (m *meter) Write(text []byte) (int, error) {
	if err := m.add(int64(len(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// add counts bytes that unpacking writes.
func (m *meter) add(bytes int64) error {
	bytes = max(0, min(bytes, m.layers.most+1)) // a sparse file may have any size
	m.bytes += bytes
	if m.layers.used.Add(m.times*bytes) > m.layers.most {
		return m.layers.tooLarge()
	}
	return nil
}
