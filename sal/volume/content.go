package volume

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// filling describes the content of a new volume.
type filling struct {
	sizeGiB int64
	into    func(ctx context.Context, r *record) error // creates the tree
	resumes bool                                       // the next attempt resumes where this attempt failed
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
	if err := fits(j.Resource, image.Bytes, args.SizeGiB); err != nil {
		return filling{}, err
	}
	return filling{sizeGiB: args.SizeGiB, into: func(ctx context.Context, r *record) error {
		if err := empty(ctx, r); err != nil {
			return err
		}
		return j.Trees.Clone(ctx, image.Path, filepath.Join(j.Trees.Path(j.name), sal.DiskName), args.SizeGiB*gib)
	}}, nil
}

// image returns an image that can become a disk.
func (j *job) image(ctx context.Context, ref writ.Ref) (sal.Image, error) {
	resource := writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindImage, Name: ref.Name}
	missing := sal.Unknown(resource)
	if j.Images != nil {
		image, err := j.Images.Image(ctx, resource.Project, ref)
		if err == nil {
			return image, sal.CheckFormat("volume.create", "image", resource.Project, ref, image)
		}
		if writ.CodeOf(err) != writ.CodeResourceUnknown {
			return image, err
		}
		missing = err
	}
	return sal.Image{}, writ.AsError(missing).WithHint("fetch it with image.fetch(%q, …)", ref.Name)
}

func (j *job) cloneContent(ctx context.Context, args *catalog.VolumeClone) (filling, error) {
	source, err := findComplete(j.records(), j.Resource.Project, args.From)
	if err != nil {
		return filling{}, err
	}
	if args.Snapshot != "" {
		if err := checkSnapshot(ctx, j.Trees, source.Resource, args.Snapshot); err != nil {
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
		return j.disk(dir).claim(size * gib)
	}}, nil
}
