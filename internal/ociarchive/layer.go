package ociarchive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
	looks, ok := layerTypes[layer.MediaType]
	if !ok {
		return "", noArchive("the layer %s has the type %q, which is not unpacked", layer.Digest, layer.MediaType)
	}
	if !looks {
		return layer.Digest, nil
	}
	if known, ok := a.unpacked[layer.Digest]; ok {
		return known, nil
	}
	from, err := unpack(&ctxio.Reader{Ctx: ctx, From: io.NewSectionReader(a.file, b.offset, b.size)})
	if err != nil {
		return "", unreadable(ctx, err)
	}
	defer from.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(from, a.left+1))
	if err != nil {
		return "", unreadable(ctx, err)
	}
	if a.left -= n; a.left < 0 {
		return "", noArchive("its unpacked layers have more than %d MiB", a.most>>20)
	}
	a.unpacked[layer.Digest] = digest.NewDigest(digest.SHA256, sum)
	return a.unpacked[layer.Digest], nil
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
