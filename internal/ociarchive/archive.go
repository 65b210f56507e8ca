// Package ociarchive checks untrusted archives of container images: tar files with an OCI image layout. It does not
// depend on the origin of an archive or on the containers made from it.
//
// A daemon stores blobs and unpacked layers of all projects together, and finds them by digests that archives name: a
// blob by its own digest, an unpacked layer by the diff_ids in the config. Knowledge of a digest must not give access
// to its content. An archive is therefore valid only if it contains everything that the daemon could look up for it.
package ociarchive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"writ"
	"writ/internal/ctxio"
)

// Limits of an archive. Compressed layers can be a thousand times larger when unpacked.
const (
	maxText     = 4 << 20
	maxLayers   = 500 // of an image
	maxDepth    = 4
	maxBlobs    = 10_000
	maxNames    = 8 << 20 // bytes of the names of all files, and fileBytes for each; containerd's client stores them
	fileBytes   = 512
	maxBelow    = 10_000 // manifests, configs and layers below index.json; containerd's client visits each of them
	maxUnpacked = 32 << 30
)

// Check returns nil if a file is an OCI archive with an image for this machine, and if each image that containerd could
// select here is complete. The manifest, config and layers of such an image must exist under their digests, and its
// diff_ids must match the unpacked layers.
func Check(ctx context.Context, file *os.File) error { return check(ctx, file, maxUnpacked) }

func check(ctx context.Context, file *os.File, most int64) error {
	a := &archive{
		file: file, layers: &Layers{most: most}, machine: platforms.Default(),
		texts: map[string][]byte{}, blobs: map[digest.Digest]blob{}, looked: map[look]int{},
		unpacked: map[look]Unpacked{},
	}
	if err := a.scan(ctx); err != nil {
		return err
	}
	if err := a.checkLayout(); err != nil {
		return err
	}
	_, err := a.checkIndex(ctx, a.texts[ocispec.ImageIndexFile], 0)
	if err == nil && !a.found {
		err = noArchive("it has no image for linux/%s", runtime.GOARCH)
	}
	return err
}

func noArchive(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the content is not a usable OCI archive: "+format, args...)
}

// archive is the state of a check.
type archive struct {
	file    *os.File
	machine platforms.Matcher // the matcher that containerd uses
	layers  *Layers

	texts    map[string][]byte // oci-layout, index.json, and Docker's manifest.json
	names    int               // see maxNames
	blobs    map[digest.Digest]blob
	looked   map[look]int      // finished checks of manifests and indexes, with the number of descriptors below each
	unpacked map[look]Unpacked // layers
	found    bool              // it contains an image for this machine
}

// blob is the position of a blob in the file.
type blob struct{ offset, size int64 }

// look identifies a check of a manifest, index or layer. Its descriptor determines how containerd reads it.
type look struct {
	digest    digest.Digest
	mediaType string
	chosen    bool // its descriptor has a platform, so the platform in its config does not matter
}

func (a *archive) scan(ctx context.Context) error {
	r := tar.NewReader(&ctxio.Reader{Ctx: ctx, From: a.file})
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(ctx, err)
		}
		if a.names += fileBytes + len(header.Name) + len(header.Linkname); a.names > maxNames {
			return noArchive("it has too many files, or their names are too long")
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if isSparse(header) { // containerd would write the holes into its store
			return noArchive("it has a sparse file")
		}
		if err := a.see(ctx, header, r); err != nil {
			return err
		}
	}
}

// unreadable returns the error for an unreadable archive, or the error of the context.
func unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return noArchive("%v", err)
}

func (a *archive) see(ctx context.Context, header *tar.Header, r io.Reader) error {
	name := path.Clean(header.Name)
	hex, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	switch {
	case name == ocispec.ImageLayoutFile || name == ocispec.ImageIndexFile || name == dockerFile:
		return a.keep(ctx, name, header.Size, r)
	case isBlob:
		return a.digest(ctx, digest.NewDigestFromEncoded(digest.SHA256, hex), header.Size, r)
	}
	return nil
}

// keep stores the text of a file that may occur only once, because readers would use different copies.
func (a *archive) keep(ctx context.Context, name string, size int64, r io.Reader) error {
	if _, again := a.texts[name]; again {
		return noArchive("it has two files %s", name)
	}
	if size > maxText {
		return noArchive("its %s is too long", name)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return unreadable(ctx, err)
	}
	a.texts[name] = text
	return nil
}

// digest verifies the digest of a blob and stores the blob's position.
func (a *archive) digest(ctx context.Context, named digest.Digest, size int64, r io.Reader) error {
	at, err := a.file.Seek(0, io.SeekCurrent) // package tar does not read ahead
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return unreadable(ctx, err)
	}
	if got := digest.NewDigest(digest.SHA256, sum); got != named {
		return noArchive("the blob %s has the SHA-256 %s", named.Encoded(), got.Encoded())
	}
	if len(a.blobs) == maxBlobs {
		return noArchive("it has more than %d blobs", maxBlobs)
	}
	a.blobs[named] = blob{at, size}
	return nil
}

// checkLayout checks that containerd reads index.json and not Docker's manifest.json.
func (a *archive) checkLayout() error {
	text, ok := a.texts[ocispec.ImageLayoutFile]
	docker, isDocker := a.texts[dockerFile]
	if !ok && isDocker {
		return noArchive("it is a Docker archive").
			WithHint("make an OCI archive: skopeo copy docker-archive:IN oci-archive:OUT")
	}
	if !ok {
		return noArchive("it has no %s", ocispec.ImageLayoutFile)
	}
	var layout ocispec.ImageLayout
	if err := Decode(text, &layout); err != nil {
		return noArchive("its %s cannot be read: %v", ocispec.ImageLayoutFile, err)
	}
	if layout.Version != ocispec.ImageLayoutVersion {
		return noArchive("its %s has the version %q, not %s", ocispec.ImageLayoutFile, layout.Version,
			ocispec.ImageLayoutVersion)
	}
	if _, ok := a.texts[ocispec.ImageIndexFile]; !ok {
		return noArchive("it has no %s", ocispec.ImageIndexFile)
	}
	if valuesOf(docker) > maxValues { // containerd's client decodes it, even if it then uses the OCI layout
		return noArchive("its %s has more than %d values", dockerFile, maxValues)
	}
	return nil
}

// blob returns the blob of a descriptor.
func (a *archive) blob(d ocispec.Descriptor) (blob, error) {
	b, ok := a.blobs[d.Digest]
	if !ok || b.size != d.Size {
		return blob{}, noArchive("the blob %s is missing or does not have %d bytes", d.Digest, d.Size)
	}
	return b, nil
}

// text reads a manifest, index or config.
func (a *archive) text(d ocispec.Descriptor) ([]byte, error) {
	b, err := a.blob(d)
	if err != nil {
		return nil, err
	}
	if b.size > maxText {
		return nil, noArchive("the blob %s is too long for a manifest", d.Digest)
	}
	text := make([]byte, b.size)
	if _, err := a.file.ReadAt(text, b.offset); err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	return text, nil
}
