// Package imagestore keeps the images of containers at containerd: it imports and unpacks them, and removes unused ones.
// It does not know the containers.
package imagestore

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/platforms"

	"writ/internal/ociarchive"
	"writ/sal"
)

// Store keeps images at the daemon.
type Store struct {
	Daemon *client.Client
	// Locks are by image name: no image is removed while a container is made from it.
	Locks *sal.Locks
	Step  func(name string) // called before each change of the daemon
}

// NameOf returns the name of an archive's image at the daemon. It depends only on the content, so the daemon has an
// image once even if it has several names or is in several projects.
func NameOf(i sal.Image) string { return archivePrefix + i.SHA256 }

const (
	archivePrefix = "writ/archive@sha256:"
	// EarlierPrefix is the prefix of images from earlier versions, which did not check that their archives are
	// complete. Existing containers keep them; new containers do not use them.
	EarlierPrefix = "writ/oci@sha256:"
)

// isImage reports whether the name of an image or of an import's lease belongs to the driver.
func isImage(name string) bool {
	return strings.HasPrefix(name, archivePrefix) || strings.HasPrefix(name, EarlierPrefix)
}

// Unpacked returns the image of an archive, imported and unpacked at the daemon. The caller must hold the lock on name,
// which NameOf returns. The snapshotter stores the unpacked layers.
//
// A lease with the same name protects all parts from the daemon's garbage collection until the image is complete and
// refers to them. A lease that a crash left is reused by the next attempt, and deleted with the image.
func (s *Store) Unpacked(ctx context.Context, name, path, snapshotter string) (client.Image, error) {
	image, err := s.Daemon.GetImage(ctx, name)
	if err == nil {
		if there, err := image.IsUnpacked(ctx, snapshotter); err != nil || there {
			return image, Failed("find the image", err)
		}
	}
	if err != nil && !IsGone(err) {
		return nil, Failed("find the image", err)
	}
	file, err := openWhole(ctx, path)
	if err != nil {
		return nil, sal.HostError("read the image", err)
	}
	defer file.Close()
	s.Step("import the image")
	lease := leases.Lease{ID: name}
	if _, err := s.Daemon.LeasesService().Create(ctx, leases.WithID(name)); err != nil && !IsExisting(err) {
		return nil, Failed("lease the image during its import", err)
	}
	image, err = s.importFrom(leases.WithLease(ctx, name), name, file)
	if err != nil {
		return nil, Failed("import the image", err)
	}
	s.Step("unpack the image")
	if err := image.Unpack(leases.WithLease(ctx, name), snapshotter); err != nil {
		return nil, notUnpacked(err)
	}
	s.Step("end the import")
	if err := s.Daemon.LeasesService().Delete(ctx, lease); err != nil && !IsGone(err) {
		return nil, Failed("end the import", err)
	}
	return image, nil
}

// openWhole opens an archive and checks that it is complete. For missing parts, the daemon would use content from other
// projects. The archive was checked when it was fetched, but perhaps by an earlier version with a weaker check.
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

// importFrom imports an archive as the image called `name`. Image names inside the archive are ignored, because they
// could overwrite images of other projects.
func (s *Store) importFrom(ctx context.Context, name string, file io.Reader) (client.Image, error) {
	store := s.Daemon.ContentStore()
	index, err := archive.ImportIndex(ctx, store, file)
	if err != nil {
		return nil, err
	}
	children := images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default())
	if err := images.WalkNotEmpty(ctx, images.SetChildrenLabels(store, children), index); err != nil {
		return nil, err
	}
	image := images.Image{Name: name, Target: index}
	if _, err = s.Daemon.ImageService().Create(ctx, image); IsExisting(err) {
		_, err = s.Daemon.ImageService().Update(ctx, image, "target")
	}
	if err != nil {
		return nil, err
	}
	return s.Daemon.GetImage(ctx, name)
}

// DropUnused removes unused images from the daemon, and the remains of unfinished imports.
func (s *Store) DropUnused(ctx context.Context) error {
	inUse, err := s.used(ctx)
	if err != nil {
		return err
	}
	all, err := s.Daemon.ImageService().List(ctx)
	if err != nil {
		return Failed("list the images", err)
	}
	kept, err := s.Daemon.LeasesService().List(ctx)
	if err != nil {
		return Failed("list the imports", err)
	}
	unused := map[string]bool{}
	for _, i := range all {
		unused[i.Name] = isImage(i.Name) && !inUse[i.Name]
	}
	for _, l := range kept {
		unused[l.ID] = isImage(l.ID) && !inUse[l.ID]
	}
	for name, drop := range unused {
		if !drop {
			continue
		}
		if err := s.drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// drop removes an image unless a container uses it by now.
func (s *Store) drop(ctx context.Context, name string) error {
	done, err := s.Locks.Take(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	if inUse, err := s.used(ctx); err != nil || inUse[name] {
		return err
	}
	s.Step("remove the image")
	if err := s.Daemon.LeasesService().Delete(ctx, leases.Lease{ID: name}); err != nil && !IsGone(err) {
		return Failed("remove the image", err)
	}
	if err := s.Daemon.ImageService().Delete(ctx, name, images.SynchronousDelete()); err != nil && !IsGone(err) {
		return Failed("remove the image", err)
	}
	return nil
}

// used returns the names of the images of all containers.
func (s *Store) used(ctx context.Context) (map[string]bool, error) {
	all, err := s.Daemon.ContainerService().List(ctx)
	if err != nil {
		return nil, Failed("list the containers", err)
	}
	names := map[string]bool{}
	for _, c := range all {
		names[c.Image] = true
	}
	return names, nil
}
