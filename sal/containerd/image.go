package containerd

import (
	"context"
	"os"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"

	"writ/sal"
)

// imageName is how an image is called at the daemon: by what was fetched, so that there is one whatever it is called in projects.
func imageName(i sal.Image) string { return imagePrefix + i.SHA256 }

const imagePrefix = "writ/oci@sha256:"

// unpacked returns an image that the daemon has and that containers can be made of. The caller has the turn on its name.
//
// A lease of the same name keeps everything until the image as a whole is there, which keeps it from then on; what a crash leaves of the
// lease is taken up by the next attempt, and ends with the image.
func (j *job) unpacked(ctx context.Context, name, path, keeps string) (client.Image, error) {
	image, err := j.daemon.GetImage(ctx, name)
	if err == nil {
		if there, err := image.IsUnpacked(ctx, keeps); err != nil || there {
			return image, whenFailed("look for the image", err)
		}
	}
	if err != nil && !gone(err) {
		return nil, failed("look for the image", err)
	}
	j.Progress("unpacking the image")
	j.step("import the image")
	lease := leases.Lease{ID: name}
	if _, err := j.daemon.LeasesService().Create(ctx, leases.WithID(name)); err != nil && !exists(err) {
		return nil, failed("keep the image while it is imported", err)
	}
	image, err = j.importFrom(leases.WithLease(ctx, name), name, path)
	if err != nil {
		return nil, err
	}
	j.step("unpack the image")
	if err := image.Unpack(leases.WithLease(ctx, name), keeps); err != nil {
		return nil, failed("unpack the image", err)
	}
	j.step("end the import")
	if err := j.daemon.LeasesService().Delete(ctx, lease); err != nil && !gone(err) {
		return nil, failed("end the import", err)
	}
	return image, nil
}

// importFrom reads an OCI archive.
func (j *job) importFrom(ctx context.Context, name, path string) (client.Image, error) {
	archive, err := os.Open(path)
	if err != nil {
		return nil, sal.HostError("read the image", err)
	}
	defer archive.Close()
	made, err := j.daemon.Import(ctx, archive, client.WithIndexName(name), client.WithImageRefTranslator(func(string) string { return "" }))
	if err != nil {
		return nil, failed("import the image", err)
	}
	for _, m := range made { // names that the archive gives itself
		if m.Name == name {
			continue
		}
		if err := j.daemon.ImageService().Delete(ctx, m.Name); err != nil && !gone(err) {
			return nil, failed("import the image", err)
		}
	}
	image, err := j.daemon.GetImage(ctx, name)
	return image, whenFailed("import the image", err)
}

// dropImages removes images from the daemon that no container uses any more, and what is left of imports that were never finished.
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
		unused[i.Name] = strings.HasPrefix(i.Name, imagePrefix) && !used[i.Name]
	}
	for _, l := range kept {
		unused[l.ID] = strings.HasPrefix(l.ID, imagePrefix) && !used[l.ID]
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

// dropImage removes an image unless it has got a user meanwhile.
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

// usedImages are the names of all images that containers are made of.
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
