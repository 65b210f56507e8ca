package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

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
func (j *job) content() (filling, error) {
	switch args := j.Args.(type) {
	case *catalog.VolumeCreate:
		into, err := j.imageContent(args)
		return filling{args.SizeGiB, into}, err
	case *catalog.VolumeClone:
		return j.cloneContent(args)
	case *catalog.VolumeReceive:
		return filling{args.SizeGiB, func(ctx context.Context, to string) error { return j.receive(ctx, args, to) }}, j.hasBackup(args.Backup)
	default:
		return filling{}, writ.Errorf(writ.CodeDriverMissing, "the directory driver cannot do %s", j.Operation.Name())
	}
}

// diskName is the file in which a volume holds the image that it was made of.
const diskName = "disk.raw"

func (j *job) imageContent(args *catalog.VolumeCreate) (func(ctx context.Context, to string) error, error) {
	if args.Image.Name == "" {
		return func(_ context.Context, to string) error { return j.root.Mkdir(to, 0o755) }, nil
	}
	image := writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindImage, Name: args.Image.Name}
	file := filepath.Join(j.Images, image.HostName())
	info, err := os.Stat(file)
	if j.Images == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, writ.Errorf(writ.CodeResourceUnknown, "this node has no %s", image).WithHint("image.fetch(%q, …) brings it", image.Name)
	}
	if err != nil {
		return nil, sal.HostError("look at the image", err)
	}
	if err := j.fits(info.Size(), args.SizeGiB); err != nil {
		return nil, err
	}
	return func(ctx context.Context, to string) error {
		if err := j.root.Mkdir(to, 0o755); err != nil {
			return err
		}
		source, err := os.Open(file)
		if err != nil {
			return err
		}
		defer source.Close()
		return j.writeFile(ctx, path.Join(to, diskName), 0o600, source)
	}, nil
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
