package containerd

import (
	"cmp"
	"context"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

var (
	_ sal.Users      = (*Driver)(nil)
	_ sal.ImageUsers = (*Driver)(nil)
)

// ImageUsers returns the containers made from an image. They run without the file of the image, but the driver needs
// the file to recreate a container that the daemon has lost.
func (d *Driver) ImageUsers(_ context.Context, image sal.Owner) ([]sal.Owner, error) {
	return recordsIn(d.Dir).UsersOfImage(image, func(r *record) (bool, error) {
		return anyOf(r, func(args *catalog.ContainerCreate) bool { return image.Means(r.Resource.Project, args.Image) })
	})
}

// Users returns the containers that use a volume, including unfinished ones. It returns RECORD_DAMAGED if a record is
// damaged, because the users are then unknown.
func (d *Driver) Users(ctx context.Context, volume writ.UID) ([]sal.User, error) {
	records, damaged, err := recordsIn(d.Dir).List()
	if err != nil {
		return nil, err
	}
	if len(damaged) > 0 {
		return nil, damaged[0].Hides(writ.KindVolume)
	}
	var all []sal.User
	for _, r := range records {
		uses, err := anyOf(r, func(args *catalog.ContainerCreate) bool {
			return slices.ContainsFunc(args.Volumes, func(m catalog.Mount) bool { return m.Volume.UID == volume })
		})
		if err != nil {
			return nil, err
		}
		if !uses {
			continue
		}
		running, err := mayRun(ctx, &d.Connection, r)
		if err != nil {
			return nil, err
		}
		all = append(all, sal.User{Owner: sal.Owner{Resource: r.Resource, UID: r.UID}, Running: running})
	}
	slices.SortFunc(all, func(a, b sal.User) int { return cmp.Compare(a.UID, b.UID) })
	return all, ctx.Err()
}

// mayRun reports whether a container runs or would be restarted. A stopped container may still be ending.
func mayRun(ctx context.Context, daemon *Connection, r *record) (bool, error) {
	if !r.Own.Stopped {
		return true, nil
	}
	reached, err := daemon.reachCached(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range []string{r.Own.Container, r.Own.Other} {
		if id == "" {
			continue
		}
		if now, err := inspect(daemon.in(ctx), reached, id); err != nil || now.running() {
			return true, err
		}
	}
	return false, nil
}

// anyOf reports whether the condition `is` holds for the arguments of the current container or of the container beside
// it.
func anyOf(r *record, is func(*catalog.ContainerCreate) bool) (bool, error) {
	args, err := argsOf(r)
	if err != nil || is(args) || r.Own.Beside == nil {
		return err == nil && is(args), err
	}
	args, err = decode(r.Operation, r.Own.Beside)
	return err == nil && is(args), err
}

// argsOf returns the arguments of a container, in the form of container.create. They contain the names of secrets, not
// the values.
func argsOf(r *record) (*catalog.ContainerCreate, error) { return decode(r.Operation, r.Spec) }

func decode(operation string, spec sal.Spec) (*catalog.ContainerCreate, error) {
	if o, ok := catalog.Lookup(operation); ok {
		args, err := o.Decode(spec)
		if err != nil {
			return nil, err
		}
		if create := createArgs(args); create != nil {
			return create, nil
		}
	}
	return new(catalog.ContainerCreate), nil
}

// createArgs returns the arguments of an operation that makes a container, in the form of container.create, or nil. A
// container of container.run is never restarted.
func createArgs(args any) *catalog.ContainerCreate {
	switch args := args.(type) {
	case *catalog.ContainerCreate:
		return args
	case *catalog.ContainerRun:
		create := &catalog.ContainerCreate{ContainerProgram: args.ContainerProgram, Restart: "never"}
		create.Files = make(map[string]catalog.KeptFile, len(args.Files))
		for path, f := range args.Files {
			create.Files[path] = catalog.KeptFile{File: f}
		}
		return create
	}
	return nil
}

// unshared rejects volumes with an exclusive user of another driver. A machine opens a file in its volume as root of
// this host, and a container that writes to the volume could redirect it to any other file. The record is written
// before this check, so that concurrent requests see each other's records.
func (j *job) unshared(ctx context.Context, args *catalog.ContainerCreate) error {
	if err := j.hasVolumes(ctx, args); err != nil {
		return err
	}
	for _, m := range args.Volumes {
		volume := sal.Owner{
			Resource: writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindVolume, Name: m.Volume.Name},
			UID:      m.Volume.UID,
		}
		if err := sal.Unused(ctx, volume, j.Others); err != nil {
			return err
		}
	}
	return nil
}

// hasVolumes returns an error if a volume of the container is missing. The record of the container is written before
// this check, and a concurrent deletion marks the volume before it checks for users. So at least one of the two
// operations fails.
func (j *job) hasVolumes(ctx context.Context, args *catalog.ContainerCreate) error {
	for _, m := range args.Volumes {
		if _, err := j.Volumes.Volume(ctx, j.Resource.Project, m.Volume); err != nil {
			return err
		}
	}
	return nil
}
