package ociarchive

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Further types of manifests and indexes that containerd reads.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// dockerFile is the index of an archive in Docker's own format.
const dockerFile = "manifest.json"

// checkIndex checks every entry of an index that containerd could select on this machine: entries with a matching
// platform or without one. The selection depends on their order and on containerd's other content. It returns the number
// of descriptors below the index.
func (a *archive) checkIndex(ctx context.Context, text []byte, depth int) (below int, err error) {
	if depth > maxDepth {
		return 0, noArchive("its indexes are nested too deep")
	}
	var index ocispec.Index
	if err := Decode(text, &index); err != nil {
		return 0, noArchive("its index cannot be read: %v", err)
	}
	for _, d := range index.Manifests {
		if d.Platform != nil && !a.machine.Match(*d.Platform) {
			continue
		}
		seen := look{d.Digest, d.MediaType, d.Platform != nil}
		more, ok := a.looked[seen]
		if !ok {
			if more, err = a.checkOne(ctx, d, depth); err != nil {
				return 0, err
			}
			a.looked[seen] = more
		}
		if below += 1 + more; below > maxBelow {
			return 0, noArchive("its indexes contain more than %d manifests and layers", maxBelow)
		}
	}
	return below, nil
}

func (a *archive) checkOne(ctx context.Context, d ocispec.Descriptor, depth int) (below int, err error) {
	isIndex := d.MediaType == ocispec.MediaTypeImageIndex || d.MediaType == dockerIndex
	if !isIndex && d.MediaType != ocispec.MediaTypeImageManifest && d.MediaType != dockerManifest {
		_, err := a.blob(d) // containerd stores it without reading it
		return 0, err
	}
	text, err := a.text(d)
	if err != nil {
		return 0, err
	}
	if isIndex {
		return a.checkIndex(ctx, text, depth+1)
	}
	return a.checkManifest(ctx, d, text)
}

// checkManifest checks that an image is complete. It skips an image for another machine. Without a platform in the
// descriptor, the config determines the machine. It returns the number of descriptors in the manifest.
func (a *archive) checkManifest(ctx context.Context, d ocispec.Descriptor, text []byte) (below int, err error) {
	var manifest ocispec.Manifest
	if err := Decode(text, &manifest); err != nil {
		return 0, noArchive("its manifest %s cannot be read: %v", d.Digest, err)
	}
	below = 1 + len(manifest.Layers)
	text, err = a.text(manifest.Config)
	if err != nil {
		return 0, err
	}
	var config ocispec.Image
	if err := Decode(text, &config); err != nil {
		return 0, noArchive("its config %s cannot be read: %v", manifest.Config.Digest, err)
	}
	if d.Platform == nil && !a.machine.Match(config.Platform) {
		return below, nil
	}
	diffs := config.RootFS.DiffIDs
	if len(diffs) != len(manifest.Layers) {
		return 0, noArchive("its manifest %s has %d layers, but the config has %d", d.Digest, len(manifest.Layers), len(diffs))
	}
	if len(diffs) > maxLayers {
		return 0, noArchive("its manifest %s has %d layers, and at most %d are allowed", d.Digest, len(diffs), maxLayers)
	}
	var bytes, files int64 // of this image; other images may have the same layers
	for i, layer := range manifest.Layers {
		u, err := a.unpack(ctx, layer)
		if err != nil {
			return 0, err
		}
		if u.Diff != diffs[i] {
			return 0, noArchive("the layer %s has the diff_id %s, but the config has %s", layer.Digest, u.Diff, diffs[i])
		}
		bytes, files = bytes+u.Bytes, files+u.Files
		if err := a.layers.check(bytes, files); err != nil {
			return 0, err
		}
	}
	a.found = true
	return below, nil
}
