// Package ociarchive checks archives of container images that strangers made: tars of an OCI image layout. It must not know where an archive is
// from, nor who makes containers of it.
//
// A daemon keeps blobs and unpacked layers of all projects in one store, and finds them by digests that archives name: a blob by its own, an
// unpacked layer by those that the config lists (diff_ids). Whoever knows such a digest must not get the content by it. So an archive counts only
// if it has by itself whatever the daemon could look up for it.
package ociarchive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
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

// maxText is how long a manifest or index may be, maxDepth how deep indexes may be nested, maxBlobs how many blobs an archive may have, and
// maxUnpacked how many bytes all its layers may have when they are unpacked: a compressed one can say a thousand times as much as it has.
const (
	maxText     = 4 << 20
	maxDepth    = 4
	maxBlobs    = 10_000
	maxUnpacked = 32 << 30
)

// Check makes sure that a file is an OCI archive with an image for this machine, and that each image in it which containerd could take here is
// whole: its manifest, config and layers are there, each under its own digest, and what its config says of unpacked layers is what the layers
// are.
func Check(ctx context.Context, file *os.File) error { return check(ctx, file, maxUnpacked) }

func check(ctx context.Context, file *os.File, most int64) error {
	a := &archive{
		file: file, most: most, left: most, machine: platforms.Default(),
		texts: map[string][]byte{}, blobs: map[digest.Digest]blob{}, looked: map[look]bool{}, unpacked: map[digest.Digest]digest.Digest{},
	}
	if err := a.scan(ctx); err != nil {
		return err
	}
	if err := a.checkLayout(); err != nil {
		return err
	}
	err := a.checkIndex(ctx, a.texts[ocispec.ImageIndexFile], 0)
	if err == nil && !a.found {
		err = noArchive("it has no image for linux/%s", runtime.GOARCH)
	}
	return err
}

func noArchive(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the content is no OCI archive that can be used: "+format, args...)
}

// archive is what was seen of a file.
type archive struct {
	file    *os.File
	machine platforms.Matcher // as containerd asks it
	most    int64             // how many bytes layers may have when they are unpacked
	left    int64             // of that

	texts    map[string][]byte // oci-layout and index.json
	docker   bool              // it has the manifest.json of Docker
	blobs    map[digest.Digest]blob
	looked   map[look]bool                   // an archive can name a manifest or index a million times
	unpacked map[digest.Digest]digest.Digest // of layers, by what they are packed
	found    bool                            // there is an image for this machine
}

// blob is where a blob is in the file.
type blob struct{ offset, size int64 }

// look is how a manifest or index was looked at. Its descriptor decides what containerd takes it for.
type look struct {
	digest    digest.Digest
	mediaType string
	chosen    bool // by the platform of its descriptor, not of its config
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
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := a.see(ctx, header, r); err != nil {
			return err
		}
	}
}

// unreadable is the error about an archive that cannot be read, unless the context ended.
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
	case name == ocispec.ImageLayoutFile || name == ocispec.ImageIndexFile:
		return a.keep(ctx, name, header.Size, r)
	case name == "manifest.json":
		a.docker = true
	case isBlob:
		return a.digest(ctx, digest.NewDigestFromEncoded(digest.SHA256, hex), header.Size, r)
	}
	return nil
}

// keep keeps a text that there may be one of: readers would take different ones of several.
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

// digest makes sure that a blob has the digest that it is named by, and keeps where it is.
func (a *archive) digest(ctx context.Context, named digest.Digest, size int64, r io.Reader) error {
	at, err := a.file.Seek(0, io.SeekCurrent) // package tar reads no further than it must
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
	end, err := a.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if end-at != size { // what is read at its place later would be something else
		return noArchive("the blob %s is a sparse file", named.Encoded())
	}
	if len(a.blobs) == maxBlobs {
		return noArchive("it has more than %d blobs", maxBlobs)
	}
	a.blobs[named] = blob{at, size}
	return nil
}

// checkLayout makes sure that containerd reads index.json, and not what Docker writes.
func (a *archive) checkLayout() error {
	text, ok := a.texts[ocispec.ImageLayoutFile]
	if !ok && a.docker {
		return noArchive("it is a Docker archive").WithHint("make an OCI archive: skopeo copy docker-archive:IN oci-archive:OUT")
	}
	if !ok {
		return noArchive("it has no %s", ocispec.ImageLayoutFile)
	}
	var layout ocispec.ImageLayout
	if err := json.Unmarshal(text, &layout); err != nil {
		return noArchive("its %s cannot be read: %v", ocispec.ImageLayoutFile, err)
	}
	if layout.Version != ocispec.ImageLayoutVersion {
		return noArchive("its %s has the version %q, not %s", ocispec.ImageLayoutFile, layout.Version, ocispec.ImageLayoutVersion)
	}
	if _, ok := a.texts[ocispec.ImageIndexFile]; !ok {
		return noArchive("it has no %s", ocispec.ImageIndexFile)
	}
	return nil
}

// blob finds a blob as a descriptor names it.
func (a *archive) blob(d ocispec.Descriptor) (blob, error) {
	b, ok := a.blobs[d.Digest]
	if !ok || b.size != d.Size {
		return blob{}, noArchive("the blob %s is missing or has not %d bytes", d.Digest, d.Size)
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
