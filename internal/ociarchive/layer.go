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

// diff returns the digest of an unpacked layer.
func (a *archive) diff(ctx context.Context, layer ocispec.Descriptor) (digest.Digest, error) {
	b, err := a.blob(layer)
	if err != nil {
		return "", err
	}
	if known, ok := a.unpacked[layer.Digest]; ok {
		return known, nil
	}
	diff, err := a.layers.Diff(layer, &ctxio.Reader{Ctx: ctx, From: io.NewSectionReader(a.file, b.offset, b.size)})
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", err
	}
	a.unpacked[layer.Digest] = diff
	return diff, nil
}

// Layers computes diff_ids of layers and limits the size of all of them together. Its methods may be called concurrently.
type Layers struct {
	most int64        // limit in bytes
	used atomic.Int64 // bytes of compressed layers after they were unpacked
}

// NewLayers returns a Layers with the limit for one image, or with a lower one in bytes.
func NewLayers(most int64) *Layers { return &Layers{most: min(most, maxUnpacked)} }

// Used returns the bytes of the layers so far.
func (l *Layers) Used() int64 { return l.used.Load() }

// Diff returns the digest of a layer's unpacked content. It returns ARGUMENTS_INVALID if the layer has an unknown type or
// is damaged, or if the layers so far are too large. It may return without an error before the end of content.
func (l *Layers) Diff(layer ocispec.Descriptor, content io.Reader) (digest.Digest, error) {
	looks, ok := layerTypes[layer.MediaType]
	if !ok {
		return "", noArchive("the layer %s has the type %q, which is not unpacked", layer.Digest, layer.MediaType)
	}
	if !looks {
		return layer.Digest, nil
	}
	from, err := unpack(content)
	if err != nil {
		return "", noArchive("%v", err)
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(sum, (*meter)(l)), from); err != nil {
		if tooLarge, ok := errors.AsType[*writ.Error](err); ok {
			return "", tooLarge
		}
		return "", noArchive("%v", err)
	}
	return digest.NewDigest(digest.SHA256, sum), nil
}

// meter counts the bytes of unpacked layers.
type meter Layers

func (m *meter) Write(text []byte) (int, error) {
	if m.used.Add(int64(len(text))) > m.most {
		return 0, noArchive("its unpacked layers have more than %d MiB", m.most>>20)
	}
	return len(text), nil
}

// maxWindow limits the window of zstd, in bytes: the value of zstd --ultra --long.
const maxWindow = 128 << 20

// unpack decompresses a layer. Like containerd, it detects the compression from the first bytes.
func unpack(layer io.Reader) (io.ReadCloser, error) {
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
