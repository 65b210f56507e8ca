package containerd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	mounting "github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// withImageConfig applies the program, environment, directory and user of an image. It rejects an image with an invalid
// stop signal. ownUsers limits user numbers to those below userns.Many. oci.WithImageConfig does the same and supports
// mount templates, but text/template keeps all exported methods in the binary, 10 MB of writ.
func withImageConfig(image client.Image, ownUsers bool) oci.SpecOpts {
	return func(ctx context.Context, daemon oci.Client, c *containers.Container, s *oci.Spec) error {
		described, err := image.Spec(ctx)
		if err != nil {
			return fmt.Errorf("read the config of the image: %w", err)
		}
		config := described.Config
		if _, err := parseStopSignal(config.StopSignal); err != nil {
			return err
		}
		s.Process.Args = slices.Concat(config.Entrypoint, config.Cmd)
		s.Process.Cwd = path.Join("/", config.WorkingDir)
		s.Process.Env = environment(config.Env)
		layer, err := daemon.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
		if err != nil {
			return fmt.Errorf("find the container's layer: %w", err)
		}
		var found error // without the path of the temporary mount, which is useless in a message
		err = mounting.WithReadonlyTempMount(ctx, layer, func(dir string) error {
			s.Process.User, found = userBelow(dir, config.User)
			return found
		})
		if found == nil && ownUsers {
			found = mapped(config.User, s.Process.User)
		}
		return cmp.Or(found, err)
	}
}

// userBelow finds a user in the files of a layer. Symbolic links of the image cannot lead out of the layer.
func userBelow(dir, named string) (specs.User, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return specs.User{}, fmt.Errorf("open the container's layer: %w", err)
	}
	defer root.Close()
	return userOfImage(regularFiles{root.FS()}, named)
}

// searchPath is the PATH if an image sets none.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of an image, with searchPath if it sets no PATH. It omits entries without a name or
// "=", because the runtime rejects them.
func environment(image []string) []string {
	all := []string{searchPath}
	for _, variable := range image {
		switch name, _, valid := strings.Cut(variable, "="); {
		case !valid || name == "":
		case name == "PATH":
			all[0] = variable
		default:
			all = append(all, variable)
		}
	}
	return all
}
