package simulated

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func makeImage(*Driver, sal.Request, *state) error { return nil }

// touchImage creates or removes the stand-in for an image file.
func touchImage(d *Driver, request sal.Request) error {
	if d.config.Images == "" {
		return nil
	}
	path := filepath.Join(d.config.Images, request.Resource.HostName())
	d.step("stand-in")
	args, fetched := request.Args.(*catalog.ImageFetch)
	if !fetched {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := sal.MakeDir(d.config.Images); err != nil {
		return err
	}
	text := fmt.Sprintf("This file replaces the %s image %q from %s with SHA-256 %s: its driver only simulates.\n",
		args.Format, request.Resource.Name, args.URL, args.SHA256)
	return os.WriteFile(path, []byte(text), 0o600)
}

func showImage(d *Driver, r *sal.Record[own]) any {
	spec := argsOf[catalog.ImageFetch](r)
	path := simulatedPath(r)
	if d.config.Images != "" {
		path = filepath.Join(d.config.Images, r.Resource.HostName())
	}
	return catalog.Image{Identity: identity(r), Path: path, SHA256: spec.SHA256, Format: spec.Format, SizeMiB: 1}
}

// simulatedPath returns a text in place of a real path.
func simulatedPath(r *sal.Record[own]) string {
	return fmt.Sprintf("simulated:/%s/%s", r.Resource.Kind, r.Resource.HostName())
}

// argsOf decodes the spec of a record.
func argsOf[A any](r *sal.Record[own]) *A {
	o, ok := catalog.Lookup(r.Operation)
	if !ok {
		return new(A)
	}
	decoded, err := o.Decode(r.Spec)
	if err != nil {
		return new(A)
	}
	args, _ := decoded.(*A)
	return args
}

func makeVolume(d *Driver, request sal.Request, s *state) error {
	switch args := request.Args.(type) {
	case *catalog.VolumeCreate:
		s.SizeGiB = args.SizeGiB
		return nil
	case *catalog.VolumeClone:
		size, err := sourceSize(d, request, args)
		if err != nil {
			return err
		}
		s.SizeGiB = cmp.Or(args.SizeGiB, size)
		return fits(request, size, s.SizeGiB)
	case *catalog.VolumeCopy:
		s.SizeGiB = args.SizeGiB
		if request.Origin != nil {
			return nil // the other node simulates too, without content
		}
		size, err := sourceSize(d, request, &catalog.VolumeClone{From: args.From, Snapshot: args.Snapshot})
		if err != nil {
			return err
		}
		return fits(request, size, s.SizeGiB)
	case *catalog.VolumeReceive:
		b, err := d.backups.read(request.Resource.Project, args.Backup)
		if err != nil {
			return err
		}
		if args.SHA256 != "" && args.SHA256 != b.SHA256 {
			return writ.Errorf(writ.CodeChecksumMismatch, "the backup %q has the SHA-256 %s, not %s", args.Backup,
				b.SHA256, args.SHA256)
		}
		s.SizeGiB = args.SizeGiB
		return fits(request, b.SizeGiB, s.SizeGiB)
	default:
		return unsupported(request)
	}
}

// fits returns an error if the content is larger than the volume.
func fits(request sal.Request, content, size int64) error {
	if content <= size {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%s would have %d GiB, but its content needs %d", request.Resource, size,
		content).
		WithHint("use size_gib: %d or more", content)
}

// sourceSize returns the size of the volume to clone.
func sourceSize(d *Driver, request sal.Request, args *catalog.VolumeClone) (int64, error) {
	source := sal.Request{
		Operation: request.Operation,
		Resource:  writ.ResourceID{Project: request.Resource.Project, Kind: args.From.Kind, Name: args.From.Name},
		UID:       args.From.UID,
	}
	r, err := d.store.get(source.Resource)
	if err != nil {
		return 0, err
	}
	if source.UID == "" && r != nil { // given by name
		source.UID = r.UID
	}
	if err := r.Owned(source); err != nil {
		return 0, err
	}
	s := r.Own.State
	if args.Snapshot != "" {
		if err := restoreState(source, &s, "snapshot", args.Snapshot); err != nil {
			return 0, err
		}
	}
	return s.SizeGiB, nil
}

func updateVolume(request sal.Request, fields []string, s *state) error {
	var size int64
	switch args := request.Args.(type) {
	case *catalog.VolumeCreate:
		size = args.SizeGiB
	case *catalog.VolumeClone:
		size = cmp.Or(args.SizeGiB, s.SizeGiB) // without a size, the size stays unchanged
	case *catalog.VolumeCopy:
		size = args.SizeGiB
	case *catalog.VolumeReceive:
		size = args.SizeGiB
	}
	return updateSizes(request, fields, s, 0, 0, size)
}

func useVolume(d *Driver, request sal.Request, s *state) (map[string]any, error) {
	switch request.Operation.Verb {
	case "resize":
		return nil, grow(request, s, request.Args.(*catalog.VolumeResize).SizeGiB)
	case "snapshot":
		saveState(s, request.Args.(*catalog.Snapshot).Snapshot)
		return nil, nil
	case "delete_snapshot":
		deleteState(s, request.Args.(*catalog.Snapshot).Snapshot)
		return nil, nil
	case "restore":
		size := s.SizeGiB
		err := restoreState(request, s, "snapshot", request.Args.(*catalog.Snapshot).Snapshot)
		s.SizeGiB = size // a snapshot does not contain the size
		return nil, err
	case "send":
		return sendVolume(d, request, s)
	case "discard":
		name := request.Args.(*catalog.VolumeDiscard).Backup
		s.Archives = slices.DeleteFunc(slices.Clone(s.Archives), func(a string) bool { return a == name })
		return nil, nil
	default:
		return nil, unsupported(request)
	}
}

func sendVolume(d *Driver, request sal.Request, s *state) (map[string]any, error) {
	args := request.Args.(*catalog.VolumeSend)
	if args.Snapshot != "" && s.Kept[args.Snapshot] == nil {
		then := *s
		return nil, restoreState(request, &then, "snapshot", args.Snapshot)
	}
	_, err := d.backups.read(request.Resource.Project, args.Backup)
	if err == nil {
		return nil, writ.Errorf(writ.CodeResourceConflict, "the node already has a backup %q", args.Backup).
			WithHint("use another name")
	}
	if writ.CodeOf(err) != writ.CodeResourceUnknown {
		return nil, err
	}
	s.Archives = append(slices.Clone(s.Archives), args.Backup)
	slices.Sort(s.Archives)
	return map[string]any{"backup": args.Backup, "sha256": sumOf(request)}, nil
}

// sumOf returns a made-up SHA-256 for a simulated archive.
func sumOf(request sal.Request) string {
	args := request.Args.(*catalog.VolumeSend)
	return fmt.Sprintf("%x",
		sha256.Sum256([]byte("simulated\x00"+string(request.UID)+"\x00"+args.Snapshot+"\x00"+args.Backup)))
}

// touchVolume writes or removes the files that represent archives.
func touchVolume(d *Driver, request sal.Request) error {
	r, err := d.store.records.Get(request.Resource)
	if err != nil || r == nil {
		return err
	}
	switch args := request.Args.(type) {
	case *catalog.VolumeSend:
		return d.backups.write(request.Resource.Project, args.Backup,
			backup{SizeGiB: r.Own.State.SizeGiB, SHA256: sumOf(request)})
	case *catalog.VolumeDiscard:
		return d.backups.remove(request.Resource.Project, args.Backup)
	}
	return nil
}

func showVolume(_ *Driver, r *sal.Record[own]) any {
	s := r.Own.State
	return catalog.Volume{
		Identity: identity(r), Path: simulatedPath(r), SizeGiB: s.SizeGiB, Snapshots: slices.Sorted(maps.Keys(s.Kept)),
		Backups: s.Archives,
		DiskGiB: s.SizeGiB + int64(len(s.Archives)), // an archive counts as 1 GiB
	}
}
