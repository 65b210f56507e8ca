package containerd

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// writtenFiles are the paths of the files that the driver writes and mounts into each container.
var writtenFiles = []string{"/etc/hosts", "/etc/resolv.conf"}

// mounts returns the mounts of a container's volumes, in the order of the arguments.
func (j *job) mounts(ctx context.Context, args *catalog.ContainerCreate) ([]specs.Mount, error) {
	var all []specs.Mount
	for _, m := range args.Volumes {
		to := path.Clean(m.Path)
		if err := mountable(to); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other specs.Mount) bool { return other.Destination == to }) {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "%s has two volumes at %s", j.Resource, to).
				WithHint("give each volume its own path")
		}
		volume, err := j.Volumes.Volume(ctx, j.Resource.Project, m.Volume)
		if err != nil {
			return nil, err
		}
		if err := sal.ReclaimDisk(volume.Dir, j.Step.step); err != nil { // a machine whose record was lost may own it
			return nil, sal.HostError("take the volume "+m.Volume.Name+" back", err)
		}
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		all = append(all, specs.Mount{
			Destination: to, Type: "bind", Source: volume.Dir, Options: []string{"rbind", "nosuid", "nodev", access},
		})
	}
	files := writtenFiles
	if len(args.Networks) == 0 { // resolv.conf is mounted only with a network
		files = files[:1]
	}
	return all, mountPoints(all, slices.Concat(files, args.Tmpfs))
}

// mountable rejects a path of a volume that would hide files of the kernel or of the driver.
func mountable(to string) error {
	if why := catalog.UselessMount(to); why != "" {
		return writ.Errorf(writ.CodeArgumentsInvalid, "a volume cannot be mounted at %s: %s", to, why).
			WithHint("use another path, such as /data")
	}
	return nil
}

// byDepth sorts mounts for the runtime: a parent directory comes before the directories and files below it.
func byDepth(mounts []specs.Mount) []specs.Mount {
	return slices.SortedStableFunc(slices.Values(mounts), func(a, b specs.Mount) int {
		return cmp.Compare(strings.Count(a.Destination, "/"), strings.Count(b.Destination, "/"))
	})
}

// mountPoints returns RESOURCE_CONFLICT if the mount point of a volume or of another path is missing in a read-only
// volume. The runtime cannot make it there.
func mountPoints(volumes []specs.Mount, others []string) error {
	inside := slices.Clone(volumes)
	for _, path := range others {
		inside = append(inside, specs.Mount{Destination: path})
	}
	for _, m := range inside {
		parent, ok := parentOf(m.Destination, volumes)
		if !ok || !slices.Contains(parent.Options, "ro") {
			continue
		}
		name := strings.TrimPrefix(m.Destination, parent.Destination+"/")
		missing, err := lacks(parent.Source, name)
		if err != nil {
			return sal.HostError("look for "+name+" in the volume at "+parent.Destination, err)
		}
		if missing {
			return writ.Errorf(writ.CodeResourceConflict,
				"the volume at %s is read-only and has no %s, where %s is mounted", parent.Destination, name,
				m.Destination).
				WithHint("make an empty %s in the volume with a container that may write to it, or use another path",
					name)
		}
	}
	return nil
}

// parentOf returns the deepest volume above a path. The mount point of the path lies in this volume.
func parentOf(to string, volumes []specs.Mount) (parent specs.Mount, ok bool) {
	for _, v := range volumes {
		if strings.HasPrefix(to, v.Destination+"/") && len(v.Destination) > len(parent.Destination) {
			parent, ok = v, true
		}
	}
	return parent, ok
}

// lacks reports whether an entry is missing in a directory. It returns false if a symbolic link leads out of the
// directory, and leaves the check to the runtime.
func lacks(dir, name string) (bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	_, err = root.Lstat(name)
	return errors.Is(err, fs.ErrNotExist), nil
}
