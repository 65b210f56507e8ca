package directory

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// filling is what a new volume is filled with.
type filling struct {
	sizeGiB int64
	into    func(ctx context.Context, to string) error // makes the directory to
}

// content finds out what the new volume is to hold, before anything is made.
func (j *job) content(ctx context.Context) (filling, error) {
	switch args := j.Args.(type) {
	case *catalog.VolumeCreate:
		into, err := j.imageContent(ctx, args)
		return filling{args.SizeGiB, into}, err
	case *catalog.VolumeClone:
		return j.cloneContent(args)
	case *catalog.VolumeReceive:
		return filling{args.SizeGiB, func(ctx context.Context, to string) error { return j.receive(ctx, args, to) }}, j.hasBackup(args.Backup)
	default:
		return filling{}, writ.Errorf(writ.CodeDriverMissing, "the directory driver cannot do %s", j.Operation.Name())
	}
}

func (j *job) imageContent(ctx context.Context, args *catalog.VolumeCreate) (func(ctx context.Context, to string) error, error) {
	if args.Image.Name == "" {
		return func(_ context.Context, to string) error { return j.root.Mkdir(to, 0o755) }, nil
	}
	image, err := j.image(ctx, args.Image)
	if err != nil {
		return nil, err
	}
	if err := j.fits(image.Bytes, args.SizeGiB); err != nil {
		return nil, err
	}
	return func(ctx context.Context, to string) error {
		if err := j.root.Mkdir(to, 0o755); err != nil {
			return err
		}
		source, err := os.Open(image.Path)
		if err != nil {
			return err
		}
		defer source.Close()
		return j.writeFile(ctx, path.Join(to, sal.DiskName), 0o600, source)
	}, nil
}

// image finds an image that a disk can be made of.
func (j *job) image(ctx context.Context, ref writ.Ref) (sal.Image, error) {
	resource := writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindImage, Name: ref.Name}
	missing := sal.Unknown(resource)
	if j.Images != nil {
		image, err := j.Images.Image(ctx, resource.Project, ref)
		if err == nil && image.Format == "oci" {
			return sal.Image{}, writ.Errorf(writ.CodeArgumentsInvalid, "%s is the image of a container and no disk", resource)
		}
		if writ.CodeOf(err) != writ.CodeResourceUnknown {
			return image, err
		}
		missing = err
	}
	return sal.Image{}, writ.AsError(missing).WithHint("image.fetch(%q, …) brings it", ref.Name)
}

func (j *job) cloneContent(args *catalog.VolumeClone) (filling, error) {
	source := sal.Request{
		Resource: writ.ResourceID{Project: j.Resource.Project, Kind: args.From.Kind, Name: args.From.Name},
		UID:      args.From.UID,
	}
	r, err := j.records().Get(source.Resource)
	if err != nil {
		return filling{}, err
	}
	if err := r.Owned(source); err != nil {
		return filling{}, err
	}
	at := path.Join("volumes", source.Resource.HostName())
	from := path.Join(at, "data")
	if args.Snapshot != "" {
		if from, err = j.snapshotPath(at, source.Resource, args.Snapshot); err != nil {
			return filling{}, err
		}
	} else if r.Own.Phase != ready {
		return filling{}, writ.Errorf(writ.CodeResourceBusy, "%s is %s", source.Resource, r.Own.Phase)
	}
	size := cmp.Or(args.SizeGiB, r.Own.SizeGiB)
	if size < r.Own.SizeGiB {
		return filling{}, tooSmall(j.Resource, size, fmt.Sprintf("%d GiB", r.Own.SizeGiB))
	}
	return filling{size, j.copyOf(from)}, nil
}

// fits returns an error if so many bytes are more than a volume may hold.
func (j *job) fits(bytes, sizeGiB int64) error {
	const gib = 1 << 30
	if bytes > sizeGiB*gib {
		return tooSmall(j.Resource, sizeGiB, fmt.Sprintf("%d bytes", bytes))
	}
	return nil
}

func tooSmall(resource writ.ResourceID, sizeGiB int64, content string) error {
	return writ.Errorf(writ.CodeQuotaExceeded, "%s would have %d GiB, and what it is to hold needs %s", resource, sizeGiB, content).
		WithHint("give it a bigger size_gib")
}
