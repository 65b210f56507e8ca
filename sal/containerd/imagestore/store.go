// Package imagestore keeps the images of containers at containerd: it imports and unpacks them, and removes unused
// ones. It does not use the records of containers.
package imagestore

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/platforms"

	"writ/sal"
)

// Store keeps images at the daemon.
type Store struct {
	Daemon *client.Client
	// Locks are by image name: no image is removed while a container is made from it.
	Locks  *sal.Locks
	Budget *Budget
	Step   func(name string) // called before each change of the daemon
}

// EarlierPrefix is the prefix of images from earlier versions, which did not check that their archives are complete.
// Existing containers keep them; new containers do not use them.
const EarlierPrefix = "writ/oci@sha256:"

// isImage reports whether the name of an image or of an import's lease belongs to the driver.
func isImage(name string) bool {
	return strings.HasPrefix(name, archivePrefix) || strings.HasPrefix(name, pulledPrefix) ||
		strings.HasPrefix(name, EarlierPrefix)
}

// Unpacked returns an image that is complete and unpacked at the daemon. The caller must hold the lock on its name. The
// snapshotter stores the unpacked layers. If the operator no longer permits the registry of an image, Unpacked returns
// an error even if the image exists.
//
// A lease with the same name protects all parts from the daemon's garbage collection until the image is complete and
// refers to them. A lease that a crash left is reused by the next attempt, and deleted with the image.
func (s *Store) Unpacked(ctx context.Context, i Image, snapshotter string) (client.Image, error) {
	if i.allowed != nil {
		if err := i.allowed(); err != nil {
			return nil, err
		}
	}
	image, err := s.Daemon.GetImage(ctx, i.Name)
	if err == nil && hasLabels(image, i.labels) {
		if there, err := image.IsUnpacked(ctx, snapshotter); err != nil || there {
			return image, Failed("find the image", err)
		}
	}
	if err != nil && !IsGone(err) {
		return nil, Failed("find the image", err)
	}
	s.Step("get the image")
	lease := leases.Lease{ID: i.Name}
	if _, err := s.Daemon.LeasesService().Create(ctx, leases.WithID(i.Name)); err != nil && !IsExisting(err) {
		return nil, Failed("lease the image during its import", err)
	}
	if image, err = s.add(leases.WithLease(ctx, i.Name), i); err != nil {
		return nil, err
	}
	s.Step("unpack the image")
	if err := image.Unpack(leases.WithLease(ctx, i.Name), snapshotter); err != nil {
		return nil, notUnpacked(err)
	}
	s.Step("end the import")
	if err := s.Daemon.LeasesService().Delete(ctx, lease); err != nil && !IsGone(err) {
		return nil, Failed("end the import", err)
	}
	return image, nil
}

// hasLabels reports whether an image has these labels.
func hasLabels(image client.Image, labels map[string]string) bool {
	has := image.Labels()
	for name, value := range labels {
		if has[name] != value {
			return false
		}
	}
	return true
}

// add loads the content of an image, and makes the image at the daemon.
func (s *Store) add(ctx context.Context, i Image) (client.Image, error) {
	l, err := i.load(ctx, s)
	if l.done != nil {
		defer l.done()
	}
	if err != nil {
		return nil, err
	}
	store := s.Daemon.ContentStore()
	children := images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default())
	if err := images.WalkNotEmpty(ctx, images.SetChildrenLabels(store, children), l.target); err != nil {
		return nil, Failed("import the image", err)
	}
	image := images.Image{Name: i.Name, Target: l.target, Labels: l.labels}
	if _, err = s.Daemon.ImageService().Create(ctx, image); IsExisting(err) {
		_, err = s.Daemon.ImageService().Update(ctx, image, "target", "labels")
	}
	if err != nil {
		return nil, Failed("import the image", err)
	}
	found, err := s.Daemon.GetImage(ctx, i.Name)
	return found, Failed("import the image", err)
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

// drop removes an image unless a container uses it by now. It skips a locked image, from which a container is being
// made. If the creation of that container fails, its cleanup removes the image. Waiting for the lock could take as long
// as a pull by another project.
func (s *Store) drop(ctx context.Context, name string) error {
	done, free := s.Locks.Try(name)
	if !free {
		return nil
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
