package ociarchive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"writ"
	"writ/internal/ctxio"
)

// layerTypes has the types of layers that containerd unpacks. A type is true if containerd detects the compression of
// such a layer.
var layerTypes = map[string]bool{
	"application/vnd.oci.image.layer.v1.tar":                       false,
	"application/vnd.oci.image.layer.v1.tar+gzip":                  true,
	"application/vnd.oci.image.layer.v1.tar+zstd":                  true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar":      false,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": true,
	"application/vnd.docker.image.rootfs.diff.tar":                 true,
	"application/vnd.docker.image.rootfs.diff.tar.gzip":            true,
	"application/vnd.docker.image.rootfs.diff.tar.zstd":            true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar":         true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip":    true,
}

// unpack returns the digest and the size of an unpacked layer.
func (a *archive) unpack(ctx context.Context, layer ocispec.Descriptor) (Unpacked, error) {
	b, err := a.blob(layer)
	if err != nil {
		return Unpacked{}, err
	}
	as := look{digest: layer.Digest, mediaType: layer.MediaType}
	if known, ok := a.unpacked[as]; ok {
		return known, nil
	}
	u, err := a.layers.Unpack(layer, 1, &ctxio.Reader{Ctx: ctx, From: io.NewSectionReader(a.file, b.offset, b.size)})
	if err != nil {
		if ctx.Err() != nil {
			return u, ctx.Err()
		}
		return u, err
	}
	a.unpacked[as] = u
	return u, nil
}

// Unpacked is a layer without its compression.
type Unpacked struct {
	Diff  digest.Digest // its diff_id
	Bytes int64         // space that its files take at most
	Files int64
}

// maxFiles limits the files of an image. Large images have some hundred thousand.
const maxFiles = 2_000_000

// Layers computes diff_ids of layers, and limits the total space of all layers of an image. Its methods may be called
// concurrently.
type Layers struct {
	most    int64 // limit in bytes
	perFile int64 // minimum bytes per file, on average over all files

	bytes, files atomic.Int64 // of the layers so far
}

// NewLayers returns a Layers that limits one image to `most` bytes, or to maxUnpacked if that is less. perFile is the
// disk's space per inode in bytes, or 0 for a disk without a fixed number of inodes. It prevents an image from using a
// larger share of the inodes than of the space.
func NewLayers(most, perFile int64) *Layers {
	return &Layers{most: min(most, maxUnpacked), perFile: perFile}
}

// Used returns the space of the layers so far, in bytes.
func (l *Layers) Used() int64 { return max(l.bytes.Load(), l.files.Load()*l.perFile) }

// check returns an error if an image with these unpacked layers is too large.
func (l *Layers) check(bytes, files int64) error {
	if max(bytes, files*l.perFile) > l.most {
		return noArchive("its unpacked layers need more than %d MiB", l.most>>20)
	}
	if files > maxFiles {
		return noArchive("its layers have more than %d files", maxFiles)
	}
	return nil
}

// Unpack reads a layer. It counts the layer `times` times, its number of occurrences in the image, because containerd
// unpacks each occurrence into a separate directory. It returns ARGUMENTS_INVALID if the layer has an unknown type or
// is damaged, or if the layers so far are too large. It reads content to its end unless it returns an error.
func (l *Layers) Unpack(layer ocispec.Descriptor, times int, content io.Reader) (Unpacked, error) {
	looks, ok := layerTypes[layer.MediaType]
	if !ok {
		return Unpacked{}, noArchive("the layer %s has the type %q, which is not unpacked", layer.Digest, layer.MediaType)
	}
	from := io.NopCloser(content)
	if looks {
		var err error
		if from, err = decompressed(content); err != nil {
			return Unpacked{}, noArchive("%v", err)
		}
	}
	defer from.Close()
	sum, count := sha256.New(), newMeter(l, times)
	if err := count.unpack(io.TeeReader(from, io.MultiWriter(sum, count))); err != nil {
		if tooLarge, ok := errors.AsType[*writ.Error](err); ok {
			return Unpacked{}, tooLarge
		}
		return Unpacked{}, noArchive("the layer %s cannot be unpacked: %v", layer.Digest, err)
	}
	return Unpacked{digest.NewDigest(digest.SHA256, sum), count.bytes, count.files}, nil
}

// maxWindow limits the window of zstd, in bytes: the value of zstd --ultra --long.
const maxWindow = 128 << 20

// decompressed decompresses a layer. Like containerd, it detects the compression from the first bytes.
func decompressed(layer io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(layer, 64<<10)
	start, err := b.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b, 0x08}):
		return gzip.NewReader(b)
	case isZstd(start):
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}

// isZstd reports whether start begins a zstd frame (RFC 8878) or a skippable frame.
func isZstd(start []byte) bool {
	if bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return true
	}
	return len(start) == 8 && binary.LittleEndian.Uint32(start)&^0xf == 0x184d2a50
}
