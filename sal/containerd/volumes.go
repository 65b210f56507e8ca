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

// ImageUsers are the containers that are made of an image. They run without its file, and are made anew of it when the daemon has lost them.
func (d *Driver) ImageUsers(_ context.Context, image sal.Owner) ([]sal.Owner, error) {
	return d.records().UsersOfImage(image, func(r *record) (bool, error) {
		return anyOf(r, func(args *catalog.ContainerCreate) bool { return image.Means(r.Resource.Project, args.Image) })
	})
}

// Users are the containers that have a volume, finished or not.
func (d *Driver) Users(ctx context.Context, volume writ.UID) ([]sal.User, error) {
	records, damaged, err := d.records().List()
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
		running, err := d.runs(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, sal.User{Owner: sal.Owner{Resource: r.Resource, UID: r.UID}, Running: running})
	}
	slices.SortFunc(all, func(a, b sal.User) int { return cmp.Compare(a.UID, b.UID) })
	return all, ctx.Err()
}

// runs reports whether a container runs, or would by itself. One that was stopped may not have ended yet.
func (d *Driver) runs(ctx context.Context, r *record) (bool, error) {
	if !r.Own.Stopped {
		return true, nil
	}
	daemon, err := d.glance(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range []string{r.Own.Container, r.Own.Other} {
		if id == "" {
			continue
		}
		if now, err := look(d.in(ctx), daemon, id); err != nil || now.running() {
			return true, err
		}
	}
	return false, nil
}

// anyOf reports whether something is true of the container that counts, or of the one beside it.
func anyOf(r *record, is func(*catalog.ContainerCreate) bool) (bool, error) {
	args, err := argsOf(r)
	if err != nil || is(args) || r.Own.Beside == nil {
		return err == nil && is(args), err
	}
	args, err = decode(r.Operation, r.Own.Beside)
	return err == nil && is(args), err
}

// argsOf are the arguments that a container was made with, secrets by name.
func argsOf(r *record) (*catalog.ContainerCreate, error) { return decode(r.Operation, r.Spec) }

func decode(operation string, spec sal.Spec) (*catalog.ContainerCreate, error) {
	if o, ok := catalog.Lookup(operation); ok {
		args, err := o.Decode(spec)
		if create, ok := args.(*catalog.ContainerCreate); ok {
			return create, err
		}
		if err != nil {
			return nil, err
		}
	}
	return new(catalog.ContainerCreate), nil
}

// unshared refuses volumes that somebody else has who wants them alone: a machine opens a file of its volume as this host's root, and who
// writes there meanwhile could lead it to any other file. The record is written before, so that of two who ask at the same time one sees
// the other.
func (j *job) unshared(ctx context.Context, args *catalog.ContainerCreate) error {
	if err := j.hasVolumes(ctx, args); err != nil {
		return err
	}
	for _, m := range args.Volumes {
		volume := sal.Owner{Resource: writ.ResourceID{Project: j.Resource.Project, Kind: writ.KindVolume, Name: m.Volume.Name}, UID: m.Volume.UID}
		if err := sal.Unused(ctx, volume, j.Others); err != nil {
			return err
		}
	}
	return nil
}

// hasVolumes returns an error unless a container's volumes are there. The record says before that it has them: whoever deletes one meanwhile
// asks us after saying so, and so one of the two sees the other.
func (j *job) hasVolumes(ctx context.Context, args *catalog.ContainerCreate) error {
	for _, m := range args.Volumes {
		if _, err := j.Volumes.Volume(ctx, j.Resource.Project, m.Volume); err != nil {
			return err
		}
	}
	return nil
}
