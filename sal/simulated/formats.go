package simulated

import (
	"context"

	"writ"
	"writ/internal/imageref"
	"writ/sal"
	"writ/sal/catalog"
)

// checkFormats returns the same error as a real driver if an image has a format that its argument does not accept.
// Unknown images are not checked.
func (d *Driver) checkFormats(ctx context.Context, request sal.Request) error {
	var images map[string]writ.Ref
	switch args := request.Args.(type) {
	case *catalog.VolumeCreate:
		images = map[string]writ.Ref{"image": args.Image}
	case *catalog.MachineCreate:
		images = map[string]writ.Ref{"kernel": args.Kernel, "initramfs": args.Initramfs}
	case *catalog.ContainerCreate:
		images = map[string]writ.Ref{"image": args.Image}
	case *catalog.ContainerRun:
		images = map[string]writ.Ref{"image": args.Image}
	}
	for argument, ref := range images {
		image, known, err := d.image(ctx, request.Resource.Project, ref)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		if err := sal.CheckFormat(request.Operation.Name(), argument, request.Resource.Project, ref, image); err != nil {
			return err
		}
	}
	return nil
}

// image returns an image of a project, real or simulated. known is false for a missing image and for a reference to a
// registry.
func (d *Driver) image(ctx context.Context, project writ.ProjectID, ref writ.Ref) (i sal.Image, known bool, err error) {
	if ref.Name == "" || imageref.Looks(ref.Name) { // a reference to a registry has no format
		return i, false, nil
	}
	if d.config.Fetched != nil {
		i, err = d.config.Fetched.Image(ctx, project, ref)
		if writ.CodeOf(err) == writ.CodeResourceUnknown {
			return i, false, nil
		}
		return i, err == nil, err
	}
	id := writ.ResourceID{Project: project, Kind: writ.KindImage, Name: ref.Name}
	r, err := node(d.config.Dir).records("image").Get(id)
	if err != nil || r == nil {
		return i, false, err
	}
	return sal.Image{Format: argsOf[catalog.ImageFetch](r).Format}, true, nil
}
