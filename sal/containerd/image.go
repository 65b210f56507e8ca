package containerd

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
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"

	"writ"
	"writ/internal/ociarchive"
	"writ/sal"
)

// imageName returns the name of an image at the daemon. It depends only on the content, so the daemon has an image once
// even if it has several names or is in several projects.
func imageName(i sal.Image) string { return imagePrefix + i.SHA256 }

const (
	imagePrefix = "writ/archive@sha256:"
	// earlierPrefix is the prefix of images from earlier versions, which did not check that their archives are
	// complete. Existing containers keep them; new containers do not use them.
	earlierPrefix = "writ/oci@sha256:"
)

// isImage reports whether the name of an image or of an import's lease belongs to the driver.
func isImage(name string) bool {
	return strings.HasPrefix(name, imagePrefix) || strings.HasPrefix(name, earlierPrefix)
}

// unpacked returns an image that is imported and unpacked at the daemon; `keeps` is the name of the snapshotter. The
// caller must hold the lock on the name of the image. The progress messages do not depend on whether the daemon already
// has the image, because that would reveal images of other projects.
//
// A lease with the same name protects all parts from the daemon's garbage collection until the image is complete and
// refers to them. A lease that a crash left is reused by the next attempt, and deleted with the image.
func (j *job) unpacked(ctx context.Context, name, path, keeps string) (client.Image, error) {
	j.Progress("preparing the image")
	image, err := j.daemon.GetImage(ctx, name)
	if err == nil {
		if there, err := image.IsUnpacked(ctx, keeps); err != nil || there {
			return image, failed("find the image", err)
		}
	}
	if err != nil && !gone(err) {
		return nil, failed("find the image", err)
	}
	file, err := openWhole(ctx, path)
	if err != nil {
		return nil, sal.HostError("read the image", err)
	}
	defer file.Close()
	j.step("import the image")
	lease := leases.Lease{ID: name}
	if _, err := j.daemon.LeasesService().Create(ctx, leases.WithID(name)); err != nil && !exists(err) {
		return nil, failed("lease the image during its import", err)
	}
	image, err = j.importFrom(leases.WithLease(ctx, name), name, file)
	if err != nil {
		return nil, failed("import the image", err)
	}
	j.step("unpack the image")
	if err := image.Unpack(leases.WithLease(ctx, name), keeps); err != nil {
		return nil, notUnpacked(err)
	}
	j.step("end the import")
	if err := j.daemon.LeasesService().Delete(ctx, lease); err != nil && !gone(err) {
		return nil, failed("end the import", err)
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
func (j *job) importFrom(ctx context.Context, name string, file io.Reader) (client.Image, error) {
	store := j.daemon.ContentStore()
	index, err := archive.ImportIndex(ctx, store, file)
	if err != nil {
		return nil, err
	}
	children := images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default())
	if err := images.WalkNotEmpty(ctx, images.SetChildrenLabels(store, children), index); err != nil {
		return nil, err
	}
	image := images.Image{Name: name, Target: index}
	if _, err = j.daemon.ImageService().Create(ctx, image); exists(err) {
		_, err = j.daemon.ImageService().Update(ctx, image, "target")
	}
	if err != nil {
		return nil, err
	}
	return j.daemon.GetImage(ctx, name)
}

// dropImages removes unused images from the daemon, and the remains of unfinished imports.
func (j *job) dropImages(ctx context.Context) error {
	used, err := j.usedImages(ctx)
	if err != nil {
		return err
	}
	all, err := j.daemon.ImageService().List(ctx)
	if err != nil {
		return failed("list the images", err)
	}
	kept, err := j.daemon.LeasesService().List(ctx)
	if err != nil {
		return failed("list the imports", err)
	}
	unused := map[string]bool{}
	for _, i := range all {
		unused[i.Name] = isImage(i.Name) && !used[i.Name]
	}
	for _, l := range kept {
		unused[l.ID] = isImage(l.ID) && !used[l.ID]
	}
	for name, drop := range unused {
		if !drop {
			continue
		}
		if err := j.dropImage(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// dropImage removes an image unless a container uses it by now.
func (j *job) dropImage(ctx context.Context, name string) error {
	done, err := j.images.Take(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	if used, err := j.usedImages(ctx); err != nil || used[name] {
		return err
	}
	j.step("remove the image")
	if err := j.daemon.LeasesService().Delete(ctx, leases.Lease{ID: name}); err != nil && !gone(err) {
		return failed("remove the image", err)
	}
	if err := j.daemon.ImageService().Delete(ctx, name, images.SynchronousDelete()); err != nil && !gone(err) {
		return failed("remove the image", err)
	}
	return nil
}

// usedImages returns the names of the images of all containers.
func (j *job) usedImages(ctx context.Context) (map[string]bool, error) {
	all, err := j.daemon.ContainerService().List(ctx)
	if err != nil {
		return nil, failed("list the containers", err)
	}
	used := map[string]bool{}
	for _, c := range all {
		used[c.Image] = true
	}
	return used, nil
}

// snapshotters are the supported snapshotters in order of preference.
var snapshotters = []string{"btrfs", "overlayfs"}

// snapshotter returns the first supported snapshotter of the daemon.
func snapshotter(ctx context.Context, daemon *client.Client) (string, error) {
	plugins, err := daemon.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return "", failed("ask containerd for its snapshotters", err)
	}
	for _, name := range snapshotters {
		for _, p := range plugins.Plugins {
			if p.ID == name && p.InitErr == nil {
				return name, nil
			}
		}
	}
	return "", writ.Errorf(writ.CodeDriverMissing, "containerd has no snapshotter of %s",
		strings.Join(snapshotters, " and ")).
		WithHint("its directory must be on btrfs, or on a file system that overlayfs works on")
}

// noSnapshotter reports whether an error means that the daemon does not have the snapshotter.
func noSnapshotter(err error) bool {
	return errdefs.IsInvalidArgument(err) || errdefs.IsNotImplemented(err)
}
