package runtimespec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	mounting "github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"

	"writ"
)

// File is a file that the driver mounts into a container.
type File struct {
	Path    string // in the container
	Content string
	Mode    fs.FileMode
	Owner   string // user or user:group of the image; "" is root
	// UID and GID are the numbers of Owner in the container, set by WithFiles.
	UID, GID uint32
}

// WithFiles finds the owners of files in the image. It rejects a file whose path leads through a symbolic link of the
// image, or to a directory: the runtime would mount it at another path. ownUsers limits user numbers to those below
// userns.Many.
func WithFiles(files []*File, ownUsers bool) oci.SpecOpts {
	return func(ctx context.Context, daemon oci.Client, c *containers.Container, _ *oci.Spec) error {
		if len(files) == 0 {
			return nil
		}
		layer, err := daemon.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
		if err != nil {
			return fmt.Errorf("find the container's layer: %w", err)
		}
		var found error // without the path of the temporary mount, which is useless in a message
		err = mounting.WithReadonlyTempMount(ctx, layer, func(dir string) error {
			found = placeBelow(dir, files, ownUsers)
			return found
		})
		return cmp.Or(found, err)
	}
}

// placeBelow checks files against a layer.
func placeBelow(dir string, files []*File, ownUsers bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the container's layer: %w", err)
	}
	defer root.Close()
	for _, f := range files {
		if err := checkPath(root, f.Path); err != nil {
			return err
		}
		u, gid, err := accountOf(regularFiles{root.FS()}, f.Owner)
		if err != nil {
			return badOwner(f, err)
		}
		f.UID, f.GID = uint32(u.Uid), gid
		if err := tooLargeForOwn(f.UID, f.GID); ownUsers && err != nil {
			return badOwner(f, err)
		}
	}
	return nil
}

// checkPath rejects a path through a symbolic link, to a directory, or below a file.
func checkPath(root *os.Root, to string) error {
	names := strings.Split(strings.TrimPrefix(to, "/"), "/")
	for i := range names {
		at := path.Join(names[:i+1]...)
		info, err := root.Lstat(at)
		last := i == len(names)-1
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the runtime makes it
		case err != nil:
			return fmt.Errorf("inspect /%s in the image: %w", at, err)
		case info.Mode().Type() == fs.ModeSymlink:
			target, _ := root.Readlink(at)
			return badPath(to, fmt.Sprintf("/%s is a symbolic link to %s in the image", at, target)).
				WithHint("use a path without symbolic links")
		case last && info.IsDir():
			return badPath(to, "it is a directory in the image").WithHint("name a file in the directory")
		case !last && !info.IsDir():
			return badPath(to, "/"+at+" is not a directory in the image").WithHint("use another path")
		}
	}
	return nil
}

func badPath(to, why string) *writ.Error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "a file cannot be at %s: %s", to, why)
}

// badOwner returns the error about the owner of a file.
func badOwner(f *File, err error) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the file %s has the owner %q: %w", f.Path, f.Owner, err).
		WithHint("use a user that /etc/passwd of the image lists, or a number")
}
