package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/internal/diskformat"
	"writ/sal"
	"writ/sal/catalog"
)

// filling describes the content of a new volume.
type filling struct {
	sizeGiB int64
	into    func(ctx context.Context, r *record) error // creates the tree
	resumes bool                                       // the next attempt resumes where this one failed
}

// content returns the content of the new volume. It checks the size before anything is created, because not every disk
// enforces limits.
func (j *job) content(ctx context.Context) (filling, error) {
	switch args := j.Args.(type) {
	case *catalog.VolumeCreate:
		return j.imageContent(ctx, args)
	case *catalog.VolumeClone:
		return j.cloneContent(ctx, args)
	case *catalog.VolumeCopy:
		return j.copyContent(ctx, args)
	case *catalog.VolumeReceive:
		return j.backupContent(args)
	default:
		return filling{}, j.unable()
	}
}

func (j *job) imageContent(ctx context.Context, args *catalog.VolumeCreate) (filling, error) {
	empty := func(ctx context.Context, _ *record) error {
		_, err := j.Trees.Make(ctx, j.name, j.bound(args.SizeGiB))
		return err
	}
	if args.Image.Name == "" {
		return filling{sizeGiB: args.SizeGiB, into: empty}, nil
	}
	image, err := j.image(ctx, args.Image)
	if err != nil {
		return filling{}, err
	}
	if err := rawDisk(image.Path, args.Image.Name); err != nil {
		return filling{}, err
	}
	if err := j.fits(image.Bytes, args.SizeGiB); err != nil {
		return filling{}, err
	}
	return filling{sizeGiB: args.SizeGiB, into: func(ctx context.Context, r *record) error {
		if err := empty(ctx, r); err != nil {
			return err
		}
		return j.Trees.Clone(ctx, image.Path, filepath.Join(j.Trees.Path(j.name), sal.DiskName), args.SizeGiB*gib)
	}}, nil
}

// rawDisk returns an error if an image has another format, which would make an unusable disk.
func rawDisk(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	format, recognised, err := diskformat.Recognise(f, info.Size())
	if err != nil {
		return sal.HostError("read the image "+name, err)
	}
	if recognised {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the image %s is %s, and a volume needs a raw disk", name,
			format.Name).
			WithHint("%s", format.Remedy)
	}
	return nil
}

// image returns an image that can become a disk.
func (j *job) image(ctx context.Context, ref writ.Ref) (sal.Image, error) {
	resource := writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindImage, Name: ref.Name}
	missing := sal.Unknown(resource)
	if j.Images != nil {
		image, err := j.Images.Image(ctx, resource.Project, ref)
		if err == nil && image.Format == "oci" {
			return sal.Image{}, writ.Errorf(writ.CodeArgumentsInvalid, "%s is a container image, not a disk", resource)
		}
		if writ.CodeOf(err) != writ.CodeResourceUnknown {
			return image, err
		}
		missing = err
	}
	return sal.Image{}, writ.AsError(missing).WithHint("fetch it with image.fetch(%q, …)", ref.Name)
}

func (j *job) cloneContent(ctx context.Context, args *catalog.VolumeClone) (filling, error) {
	source, err := j.findComplete(j.Resource.Project, args.From)
	if err != nil {
		return filling{}, err
	}
	if args.Snapshot != "" {
		if err := j.hasSnapshot(ctx, source.Resource, args.Snapshot); err != nil {
			return filling{}, err
		}
	}
	size := cmp.Or(args.SizeGiB, source.Own.SizeGiB)
	if size < source.Own.SizeGiB {
		return filling{}, tooSmall(j.Resource, size, fmt.Sprintf("%d GiB", source.Own.SizeGiB))
	}
	return filling{sizeGiB: size, into: func(ctx context.Context, _ *record) error {
		dir, err := j.Trees.Copy(ctx, j.name, j.bound(size), source.Resource.HostName(), args.Snapshot)
		if err != nil {
			return err
		}
		if err := j.reclaimDisk(dir); err != nil {
			return err
		}
		return j.growDisk(dir, size*gib)
	}}, nil
}

// reclaimDisk reclaims the disk of a copy from the user of a machine: the copy has no users yet.
func (j *job) reclaimDisk(dir string) error {
	return sal.HostError("reclaim the disk of "+j.Resource.String(), sal.ReclaimDisk(dir, j.step))
}

// growDisk extends the disk in a volume, if there is one, to the size of the volume.
func (j *job) growDisk(dir string, size int64) error {
	root, err := os.OpenRoot(dir) // the volume may contain links to other directories
	if err != nil {
		return sal.HostError("open the volume", err)
	}
	defer root.Close()
	info, err := root.Lstat(sal.DiskName)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() >= size) {
		return nil
	}
	if err == nil {
		j.step("grow the disk")
		err = extend(root, sal.DiskName, size)
	}
	return sal.HostError("grow the disk of "+j.Resource.String(), err)
}

func extend(root *os.Root, name string, size int64) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// fits returns QUOTA_EXCEEDED if bytes exceed the size of a volume.
func (j *job) fits(bytes, sizeGiB int64) error {
	if bytes > sizeGiB*gib {
		return tooSmall(j.Resource, sizeGiB, fmt.Sprintf("%d bytes", bytes))
	}
	return nil
}

func tooSmall(resource writ.ResourceID, sizeGiB int64, content string) error {
	return writ.Errorf(writ.CodeQuotaExceeded, "%s would have %d GiB, and its content needs %s", resource, sizeGiB,
		content).
		WithHint("use a larger size_gib")
}
