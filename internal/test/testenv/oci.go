package testenv

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Media types in image archives.
const (
	IndexType    = "application/vnd.oci.image.index.v1+json"
	ManifestType = "application/vnd.oci.image.manifest.v1+json"
	ConfigType   = "application/vnd.oci.image.config.v1+json"
	LayerType    = "application/vnd.oci.image.layer.v1.tar"
)

// OCI builds an image archive piece by piece, so that tests can make it invalid.
type OCI struct {
	all bytes.Buffer
	tar *tar.Writer
	err error
}

// NewOCI returns an empty archive.
func NewOCI() *OCI {
	o := &OCI{}
	o.tar = tar.NewWriter(&o.all)
	return o
}

// DigestOf returns the digest of a blob.
func DigestOf(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }

// Describe returns the descriptor of a blob, which may be missing in the archive.
func Describe(mediaType string, text []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": DigestOf(text), "size": len(text)}
}

// File adds a file.
func (o *OCI) File(name string, text []byte) *OCI {
	o.err = errors.Join(o.err,
		o.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}))
	_, err := o.tar.Write(text)
	o.err = errors.Join(o.err, err)
	return o
}

// Blob adds a blob and returns its descriptor.
func (o *OCI) Blob(mediaType string, text []byte) map[string]any {
	o.File("blobs/sha256/"+strings.TrimPrefix(DigestOf(text), "sha256:"), text)
	return Describe(mediaType, text)
}

// Text adds a JSON blob and returns its descriptor.
func (o *OCI) Text(mediaType string, value map[string]any) map[string]any {
	return o.Blob(mediaType, o.json(value))
}

// Image adds an image without its layers and returns its descriptor.
func (o *OCI) Image(config map[string]any, layers ...map[string]any) map[string]any {
	return o.Text(ManifestType, Manifest(o.Text(ConfigType, config), layers...))
}

// Manifest returns the content of a manifest.
func Manifest(config map[string]any, layers ...map[string]any) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": ManifestType, "config": config, "layers": layers}
}

// Index adds the final files of an archive.
func (o *OCI) Index(manifests ...map[string]any) *OCI {
	o.File("index.json", o.json(map[string]any{"schemaVersion": 2, "manifests": manifests}))
	return o.File("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

// Bytes returns the archive.
func (o *OCI) Bytes() ([]byte, error) {
	err := errors.Join(o.err, o.tar.Close())
	return o.all.Bytes(), err
}

func (o *OCI) json(value any) []byte {
	text, err := json.Marshal(value)
	o.err = errors.Join(o.err, err)
	return text
}

// TextLayer returns the tar file of a layer with one file, which has this text.
func TextLayer(text string) []byte {
	layer, err := packLayer([]LayerEntry{{tar.Header{Name: "file", Mode: 0o644}, text}})
	if err != nil {
		panic(err)
	}
	return layer
}

// SparseLayer returns the tar file of a layer with one file of zeros, which are all in a hole. The layer has 3 KiB.
func SparseLayer(size int64) []byte { return append(SparseFile("zeros", size), make([]byte, 1024)...) }

// SparseFile returns an entry of a tar file: a file of zeros, which are all in a hole.
func SparseFile(name string, size int64) []byte {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	noData := append([]byte("0\n"), make([]byte, 510)...) // the map of the data
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(noData)), Mode: 0o600,
		PAXRecords: map[string]string{
			"SUN.sparse.major": "1", "SUN.sparse.minor": "0", "SUN.sparse.realsize": strconv.FormatInt(size, 10),
			"SUN.sparse.name": name,
		},
	})
	_, wrong := w.Write(noData)
	if err := errors.Join(err, wrong, w.Flush()); err != nil {
		panic(err)
	}
	return bytes.ReplaceAll(all.Bytes(), []byte("SUN.sparse"), []byte("GNU.sparse")) // package tar refuses to write it
}
