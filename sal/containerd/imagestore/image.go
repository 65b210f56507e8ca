package imagestore

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/containerd/containerd/v2/core/images/archive"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"writ"
	"writ/internal/imageref"
	"writ/internal/ociarchive"
	"writ/sal"
	"writ/sal/containerd/registry"
)

// Image is an image for containers, with a function that gets its content.
type Image struct {
	Name string // at the daemon
	// allowed returns an error if the operator does not permit the image's registry. It is nil for an archive.
	allowed func() error
	// labels are the labels that an existing image at the daemon must have. Otherwise, the image is loaded again.
	labels map[string]string
	// load writes the content of the image into the content store.
	load func(ctx context.Context, s *Store) (loaded, error)
}

// loaded is an image whose content is in the store.
type loaded struct {
	target ocispec.Descriptor // its index or manifest
	labels map[string]string
	done   func() // is called when the image has its labels, or could not be made; may be nil
}

const (
	archivePrefix = "writ/archive@sha256:"
	pulledPrefix  = "writ/pulled/"
)

// NameOf returns the name of an archive's image at the daemon. It depends only on the content, so the daemon stores an
// image once, even if several names or projects refer to it.
func NameOf(i sal.Image) string { return archivePrefix + i.SHA256 }

// Archive returns the image of an OCI archive. Image names inside the archive are ignored, because they could overwrite
// images of other projects.
func Archive(i sal.Image) Image {
	return Image{Name: NameOf(i), load: func(ctx context.Context, s *Store) (loaded, error) {
		file, err := openWhole(ctx, i.Path)
		if err != nil {
			return loaded{}, sal.HostError("read the image", err)
		}
		defer file.Close()
		index, err := archive.ImportIndex(ctx, s.Daemon.ContentStore(), file)
		return loaded{target: index}, Failed("import the image", err)
	}}
}

// labelRegistry is the label of an image from a registry with the host of that registry.
const labelRegistry = "writ.registry"

// Pulled returns an image at a registry, for the containers of one project: the name at the daemon contains the
// project, so that another project pulls the image itself. The same digest at another registry is pulled again, because
// the operator may permit only one of the two registries. The reference has a digest. login is called only before a
// pull.
func Pulled(
	from *registry.Source, project writ.ProjectID, reference imageref.Reference,
	login func() (registry.Login, error), progress func(string),
) Image {
	prefix := pulledPrefix + string(project) + "@"
	return Image{
		Name:    prefix + reference.Digest,
		allowed: func() error { return from.Allowed(reference.Registry) },
		labels:  map[string]string{labelRegistry: reference.Registry},
		load: func(ctx context.Context, s *Store) (loaded, error) {
			account, err := login()
			if err != nil {
				return loaded{}, err
			}
			g, err := s.Budget.grant(ctx, s.Daemon, project)
			if err != nil {
				return loaded{}, err
			}
			pulled, err := from.Pull(ctx, registry.Request{
				Reference: reference, Login: account, Store: s.Daemon.ContentStore(), Ingest: prefix, MaxBytes: g.most,
				Limit: g.of, PerFile: g.perFile, Progress: progress,
			})
			if registry.IsOfStore(err) {
				err = Failed("store the image", err)
			}
			return loaded{target: pulled.Manifest, labels: map[string]string{
				labelBytes: strconv.FormatInt(pulled.Bytes, 10), labelRegistry: reference.Registry,
			}, done: g.done}, err
		},
	}
}

// openWhole opens an archive and checks that it is complete. For missing parts of the archive, the daemon would use
// content from other projects. The archive was checked when it was fetched, but perhaps by an earlier version with a
// weaker check.
func openWhole(ctx context.Context, path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = ociarchive.Check(ctx, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
