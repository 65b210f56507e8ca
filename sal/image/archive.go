package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"writ"
)

// checkArchive makes sure that a file is an OCI archive (a tar of an OCI image layout) with one image at least that is whole: every blob
// has the digest that it is named by, and every blob that the image names is there.
func checkArchive(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &archive{file: f, blobs: map[v1.Hash]blob{}, seen: map[v1.Hash]bool{}}
	if err := a.scan(ctx); err != nil {
		return err
	}
	if a.index == nil {
		if a.docker {
			return noArchive("it is a Docker archive").WithHint("make an OCI archive: skopeo copy docker-archive:IN oci-archive:OUT")
		}
		return noArchive("it has no index.json")
	}
	index, err := v1.ParseIndexManifest(strings.NewReader(string(a.index)))
	if err != nil {
		return noArchive("its index.json cannot be read: %v", err)
	}
	return a.check(index, 0)
}

func noArchive(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the content is no OCI archive that can be used: "+format, args...)
}

// archive is what was seen of a file.
type archive struct {
	file   *os.File
	index  []byte // its index.json
	docker bool   // it has the manifest.json of Docker
	blobs  map[v1.Hash]blob
	seen   map[v1.Hash]bool // manifests and indexes that were looked at: an archive can name one a million times
}

// blob is where a blob is in the file.
type blob struct{ offset, size int64 }

// maxText is how long a manifest or index may be, maxDepth how deep indexes may be nested, and maxBlobs how many blobs an archive may have.
const (
	maxText  = 4 << 20
	maxDepth = 4
	maxBlobs = 10_000
)

func (a *archive) scan(ctx context.Context) error {
	r := tar.NewReader(&patient{ctx: ctx, from: a.file})
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return noArchive("%v", err)
		}
		if err := a.see(ctx, header, r); err != nil {
			return err
		}
	}
}

func (a *archive) see(ctx context.Context, header *tar.Header, r io.Reader) (err error) {
	name := path.Clean(header.Name)
	digest, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	switch {
	case header.Typeflag != tar.TypeReg:
		return nil
	case name == "manifest.json":
		a.docker = true
		return nil
	case name == "index.json":
		if a.index, err = io.ReadAll(io.LimitReader(r, maxText)); err != nil {
			return noArchive("%v", err)
		}
		return nil
	case !isBlob:
		return nil
	}
	at, err := a.file.Seek(0, io.SeekCurrent) // package tar reads no further than it must
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return noArchive("%v", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return noArchive("the blob %s has the SHA-256 %s", digest, got)
	}
	if len(a.blobs) == maxBlobs {
		return noArchive("it has more than %d blobs", maxBlobs)
	}
	a.blobs[v1.Hash{Algorithm: "sha256", Hex: digest}] = blob{at, header.Size}
	return nil
}

// check looks for an image for this kind of machine that is whole.
func (a *archive) check(index *v1.IndexManifest, depth int) error {
	if depth > maxDepth {
		return noArchive("its indexes are nested too deep")
	}
	problem := noArchive("it has no image for linux/%s", runtime.GOARCH)
	for _, m := range index.Manifests {
		if p := m.Platform; p != nil && p.Architecture != "" && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			continue
		}
		if a.seen[m.Digest] {
			continue
		}
		a.seen[m.Digest] = true
		err := a.checkOne(m, depth)
		if err == nil {
			return nil
		}
		problem = writ.AsError(err)
	}
	return problem
}

func (a *archive) checkOne(m v1.Descriptor, depth int) error {
	text, err := a.text(m.Digest)
	if err != nil {
		return err
	}
	if m.MediaType.IsIndex() {
		index, err := v1.ParseIndexManifest(strings.NewReader(text))
		if err != nil {
			return noArchive("its index %s cannot be read: %v", m.Digest, err)
		}
		return a.check(index, depth+1)
	}
	manifest, err := v1.ParseManifest(strings.NewReader(text))
	if err != nil {
		return noArchive("its manifest %s cannot be read: %v", m.Digest, err)
	}
	for _, d := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		if b, ok := a.blobs[d.Digest]; !ok || b.size != d.Size {
			return noArchive("the blob %s is missing or has not %d bytes", d.Digest, d.Size)
		}
	}
	return nil
}

// text reads a manifest or index.
func (a *archive) text(digest v1.Hash) (string, error) {
	b, ok := a.blobs[digest]
	if !ok {
		return "", noArchive("the blob %s is missing", digest)
	}
	if b.size > maxText {
		return "", noArchive("the blob %s is too long for a manifest", digest)
	}
	text := make([]byte, b.size)
	if _, err := a.file.ReadAt(text, b.offset); err != nil {
		return "", fmt.Errorf("read a manifest: %w", err)
	}
	return string(text), nil
}
