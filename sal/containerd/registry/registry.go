// Package registry pulls container images from registries into a content store. It is independent of the containers
// that use the images.
//
// A signed text chooses the registry, the repository and the digest. The registry chooses everything else and is not
// trusted: each blob is compared with its digest and each layer with the diff_id of the config, sizes are limited, and
// connections go only to the internet and to servers that the operator named. One store contains the blobs of all
// projects. For each project, every blob is downloaded from the registry that the project names, even if the store
// contains the blob. Otherwise, a manifest with the digests of another project's image would give access to that image.
package registry

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"writ"
	"writ/internal/imageref"
	"writ/internal/ociarchive"
	"writ/internal/outbound"
)

// Limits of an image.
const (
	maxText   = 4 << 20 // bytes of a manifest, index or config
	maxLayers = 500
	parallel  = 3 // layers that are downloaded at once; Docker has the same number
)

// Source pulls images.
type Source struct {
	Policy Policy
	// Allow lists address ranges of registries in addition to the internet and to the named servers.
	Allow       []netip.Prefix
	Authorities *x509.CertPool // trusted authorities for servers; nil means the system's
	Log         *slog.Logger   // receives causes that errors of Pull do not show; may be nil
}

// Pulled is a complete image in a content store.
type Pulled struct {
	Manifest ocispec.Descriptor // the manifest for this machine
	Bytes    int64              // space of the blobs and of the unpacked layers
}

// Request names an image and where it goes.
type Request struct {
	Reference imageref.Reference // with a digest
	Login     Login
	Store     content.Store
	Ingest    string            // prefix of the names of unfinished blobs in the store, different for each project
	MaxBytes  int64             // limit of Pulled.Bytes
	Limit     string            // describes MaxBytes in errors; FreeForImages if empty
	PerFile   int64             // minimum size of a file of the image in bytes, on average
	Progress  func(line string) // may be nil
}

// Pull downloads an image with all its blobs. After an error, the store may contain some of the blobs. The error has
// the code REGISTRY_FORBIDDEN, REGISTRY_DENIED, REGISTRY_LOGIN, REGISTRY_BUSY, IMAGE_UNKNOWN, IMAGE_PLATFORM,
// CHECKSUM_MISMATCH, QUOTA_EXCEEDED, ARGUMENTS_INVALID or UNREACHABLE.
func (s *Source) Pull(ctx context.Context, q Request) (Pulled, error) {
	if err := s.Allowed(q.Reference.Registry); err != nil {
		return Pulled{}, err
	}
	if q.Progress == nil {
		q.Progress = func(string) {}
	}
	ctx = log.WithLogger(ctx, quiet)
	resolver, guard, closeIdle := s.resolver(q.Reference, q.Login)
	defer closeIdle()
	explained := func(err error) error {
		explained := explain(ctx, q, guard.isRejected(), err)
		s.logCause(ctx, q, err, explained)
		return explained
	}
	// The tag is omitted, because the digest alone determines the image.
	name := q.Reference.Name() + "@" + q.Reference.Digest
	_, found, err := resolver.Resolve(ctx, name)
	if err != nil {
		return Pulled{}, explained(err)
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return Pulled{}, explained(err)
	}
	p := &pull{Request: q, fetcher: fetcher}
	pulled, err := p.run(ctx, found)
	return pulled, explained(err)
}

// Allowed returns REGISTRY_FORBIDDEN if the operator does not permit a registry.
func (s *Source) Allowed(registry string) error {
	if s.Policy.Allows(registry) {
		return nil
	}
	return forbidden(registry, s.Policy.Hosts())
}

// quiet drops the log lines of the client, which repeat its errors.
var quiet = logrus.NewEntry(&logrus.Logger{Out: io.Discard, Formatter: new(logrus.TextFormatter), Hooks: logrus.LevelHooks{}})

// pull is the download of one image.
type pull struct {
	Request
	fetcher remotes.Fetcher
	layers  *ociarchive.Layers
	limit   int64 // bytes of unpacked layers
}

func (p *pull) run(ctx context.Context, root ocispec.Descriptor) (Pulled, error) {
	manifest, text, err := p.manifest(ctx, root)
	if err != nil {
		return Pulled{}, err
	}
	var m ocispec.Manifest
	if err := ociarchive.Decode(text, &m); err != nil {
		return Pulled{}, invalid("its manifest cannot be read: %v", err)
	}
	configText, err := p.text(ctx, m.Config)
	if err != nil {
		return Pulled{}, err
	}
	var config ocispec.Image
	if err := ociarchive.Decode(configText, &config); err != nil {
		return Pulled{}, invalid("its config cannot be read: %v", err)
	}
	if !platforms.Default().Match(config.Platform) {
		return Pulled{}, otherPlatform(p.Reference, platforms.Format(config.Platform))
	}
	size, err := p.size(m, config)
	if err != nil {
		return Pulled{}, err
	}
	p.limit = p.MaxBytes - size
	p.layers = ociarchive.NewLayers(p.limit, p.PerFile)
	if err := p.download(ctx, m.Layers, config.RootFS.DiffIDs, size); err != nil {
		return Pulled{}, err
	}
	for _, blob := range []struct {
		ocispec.Descriptor
		text []byte
	}{{m.Config, configText}, {manifest, text}} {
		to, ref, err := p.open(ctx, blob.Descriptor)
		if err != nil {
			return Pulled{}, err
		}
		err = p.write(ctx, blob.Descriptor, to, ref, bytes.NewReader(blob.text))
		if err := errors.Join(err, to.Close()); err != nil {
			return Pulled{}, err
		}
	}
	return Pulled{Manifest: manifest, Bytes: size + p.layers.Used()}, nil
}

// manifest returns the manifest for this machine: the root itself, or the best entry of an index.
func (p *pull) manifest(ctx context.Context, root ocispec.Descriptor) (ocispec.Descriptor, []byte, error) {
	text, err := p.text(ctx, root)
	if err != nil {
		return root, nil, err
	}
	if images.IsManifestType(root.MediaType) {
		return root, text, nil
	}
	if !images.IsIndexType(root.MediaType) {
		return root, nil, invalid("it has the type %q, which is not a container image", root.MediaType)
	}
	var index ocispec.Index
	if err := ociarchive.Decode(text, &index); err != nil {
		return root, nil, invalid("its index cannot be read: %v", err)
	}
	var others []string
	var fitting []ocispec.Descriptor
	machine := platforms.Default()
	for _, d := range index.Manifests {
		switch {
		case !images.IsManifestType(d.MediaType) || d.Platform == nil: // an attestation, for example
		case machine.Match(*d.Platform):
			fitting = append(fitting, d)
		case d.Platform.OS != "unknown":
			others = append(others, platforms.Format(*d.Platform))
		}
	}
	if len(fitting) == 0 {
		return root, nil, otherPlatform(p.Reference, strings.Join(others, ", "))
	}
	chosen := slices.MinFunc(fitting, func(a, b ocispec.Descriptor) int {
		switch {
		case machine.Less(*a.Platform, *b.Platform):
			return -1
		case machine.Less(*b.Platform, *a.Platform):
			return 1
		}
		return 0
	})
	chosen.Platform = nil // the config decides, as for an image without an index
	text, err = p.text(ctx, chosen)
	return chosen, text, err
}

// size checks the descriptors of the layers, and returns the size of all blobs.
func (p *pull) size(m ocispec.Manifest, config ocispec.Image) (total int64, err error) {
	if len(m.Layers) != len(config.RootFS.DiffIDs) || len(m.Layers) > maxLayers {
		return 0, invalid("its manifest has %d layers and its config %d; at most %d are allowed", len(m.Layers),
			len(config.RootFS.DiffIDs), maxLayers)
	}
	total = m.Config.Size
	for _, layer := range m.Layers {
		if layer.Size < 0 || layer.Size > p.MaxBytes || total+layer.Size > p.MaxBytes {
			return 0, tooLarge(p.Request)
		}
		total += layer.Size
	}
	return total, nil
}

// download downloads the layers, several at once.
func (p *pull) download(ctx context.Context, layers []ocispec.Descriptor, diffs []digest.Digest, total int64) error {
	count := &counter{total: total, progress: p.Progress}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	type place struct{ digest, diff digest.Digest }
	times := make(map[place]int, len(layers))
	for i, layer := range layers {
		times[place{layer.Digest, diffs[i]}]++
	}
	for i, layer := range layers {
		at := place{layer.Digest, diffs[i]}
		if times[at] == 0 { // a repeated layer is downloaded once
			continue
		}
		occurrences := times[at]
		delete(times, at)
		group.Go(func() error { return p.layer(ctx, layer, diffs[i], occurrences, count) })
	}
	return group.Wait()
}

// layer downloads a layer into the store. Meanwhile, it computes the diff_id of the layer and compares it with the
// config. The daemon would not detect a wrong diff_id: it unpacks no layer whose diff_id it already has. times is the
// number of its occurrences in the image.
func (p *pull) layer(
	ctx context.Context, layer ocispec.Descriptor, want digest.Digest, times int, count *counter,
) error {
	to, ref, err := p.open(ctx, layer)
	if err != nil {
		return err
	}
	defer to.Close()
	body, err := p.fetch(ctx, layer)
	if err != nil {
		return err
	}
	defer body.Close()
	from, copied := io.Pipe()
	var got ociarchive.Unpacked
	unpacking := make(chan error, 1)
	go func() {
		var err error
		if got, err = p.layers.Unpack(layer, times, from); err == nil {
			_, err = io.Copy(io.Discard, from) // a reader that stops early would block the download
		}
		_ = from.CloseWithError(err)
		unpacking <- err
	}()
	err = p.write(ctx, layer, to, ref, io.TeeReader(io.TeeReader(body, count), copied))
	_ = copied.CloseWithError(err) // io.EOF if err is nil
	if unpacked := <-unpacking; err == nil {
		err = unpacked
	}
	if p.layers.Used() > p.limit {
		err = tooLarge(p.Request)
	}
	if err == nil && got.Diff != want {
		err = invalid("the layer %s has the diff_id %s, but the config has %s", layer.Digest, got.Diff, want)
	}
	return err
}

// fetch opens a blob or manifest. It ignores the URLs of the descriptor, which could be anywhere.
func (p *pull) fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256 {
		return nil, invalid("%q is not a SHA-256", d.Digest)
	}
	d.URLs = nil
	ctx = outbound.WithMost(ctx, d.Size+1) // one byte more shows that the blob is longer
	return begin(ctx, func(ctx context.Context) (io.ReadCloser, error) { return p.fetcher.Fetch(ctx, d) })
}

// text returns a manifest, index or config, whose digest it verifies.
func (p *pull) text(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > maxText {
		return nil, invalid("%s has %d bytes, more than the %d that are allowed", d.Digest, d.Size, maxText)
	}
	body, err := p.fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, d.Size+1))
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(text); got != d.Digest {
		return nil, mismatch(d.Digest, got)
	}
	return text, nil
}

// open returns a writer for a blob, and its name in the store. The writer is opened without the digest. Otherwise, the
// store would refuse a blob that it already contains. The pull would then not prove that the registry gives the blob to
// this project.
func (p *pull) open(ctx context.Context, d ocispec.Descriptor) (w content.Writer, ref string, err error) {
	ref = p.Ingest + d.Digest.String()
	if w, err = content.OpenWriter(ctx, p.Store, content.WithRef(ref)); err != nil {
		return nil, "", storeError{err}
	}
	if err := w.Truncate(0); err != nil { // an unfinished pull may have left content
		return nil, "", errors.Join(storeError{err}, w.Close())
	}
	return w, ref, nil
}

// writeSize is the number of bytes of one request to the store. The store answers each request before the next, so small
// ones are slow: with 32 KiB, as io.Copy uses, a pull of 32 MiB takes 0.2 s longer.
const writeSize = 1 << 20

// write writes a blob of exactly this size and digest.
func (p *pull) write(ctx context.Context, d ocispec.Descriptor, w content.Writer, ref string, from io.Reader) error {
	sum := digest.SHA256.Digester()
	buffer := bufio.NewWriterSize(storeWriter{w}, int(min(d.Size, writeSize)))
	n, err := io.Copy(io.MultiWriter(buffer, sum.Hash()), io.LimitReader(from, d.Size+1))
	if err == nil {
		err = buffer.Flush()
	}
	if err == nil && (n != d.Size || sum.Digest() != d.Digest) {
		err = mismatch(d.Digest, sum.Digest())
	}
	if err == nil {
		if err = w.Commit(ctx, d.Size, d.Digest); err == nil || errdefs.IsAlreadyExists(err) {
			return nil
		}
		err = storeError{err}
	}
	_ = p.Store.Abort(context.WithoutCancel(ctx), ref)
	return err
}

// platform is the platform of this machine.
func platform() string { return "linux/" + runtime.GOARCH }

func invalid(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the image is not usable: "+format, args...)
}
