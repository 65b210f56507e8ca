package runtimespec

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

	"writ"
)

// Overrides replaces parts of the config of an image.
type Overrides struct {
	User string // user or user:group; "" means the user of the image
	Dir  string // working directory; "" means the directory of the image
}

// WithImageConfig applies the program, environment, directory and user of an image. It rejects an image with an invalid
// stop signal. ownUsers limits user numbers to those below userns.Many. It replaces oci.WithImageConfig, which uses
// text/template. With text/template, the linker keeps all exported methods, which adds 10 MB to writ.
func WithImageConfig(image client.Image, over Overrides, ownUsers bool) oci.SpecOpts {
	return func(ctx context.Context, daemon oci.Client, c *containers.Container, s *oci.Spec) error {
		described, err := image.Spec(ctx)
		if err != nil {
			return fmt.Errorf("read the config of the image: %w", err)
		}
		config := described.Config
		if _, err := ParseStopSignal(config.StopSignal); err != nil {
			return err
		}
		s.Process.Args = slices.Concat(config.Entrypoint, config.Cmd)
		s.Process.Cwd = path.Join("/", cmp.Or(over.Dir, config.WorkingDir))
		s.Process.Env = environment(config.Env)
		layer, err := daemon.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
		if err != nil {
			return fmt.Errorf("find the container's layer: %w", err)
		}
		named, bad := config.User, badUser
		if over.User != "" {
			named, bad = over.User, badOverride
		}
		var found error // without the path of the temporary mount, which is useless in a message
		err = mounting.WithReadonlyTempMount(ctx, layer, func(dir string) error {
			s.Process.User, found = userBelow(dir, named)
			return found
		})
		if found == nil && ownUsers {
			found = mapped(s.Process.User)
		}
		if found != nil {
			return bad(named, found)
		}
		return err
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

// SearchPath is the PATH if an image sets none.
const SearchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of an image, with SearchPath if it sets no PATH. It omits entries without a name or
// "=", because the runtime rejects them.
func environment(image []string) []string {
	all := []string{SearchPath}
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

// Limits of Linux for a new program (execve(2)), with the default limit of the stack. The runtime detects a violation
// only after the container has started.
const (
	MaxWord  = 128<<10 - 1 // bytes of an argument or variable
	maxWords = 2 << 20     // bytes of all arguments and variables, with a NUL and a pointer for each
)

// RequireStartable rejects a program that Linux cannot start.
func RequireStartable(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if strings.Contains(s.Process.Cwd, "\x00") {
		return notStartable("its working directory contains NUL")
	}
	return CheckWords(s.Process.Args, s.Process.Env)
}

// CheckWords checks the arguments and variables of a program. Its errors contain no value, which may be a secret.
func CheckWords(args, env []string) error {
	total := 0
	for i, words := range [][]string{args, env} {
		for n, word := range words {
			name := fmt.Sprintf("its argument %d", n)
			if i == 1 {
				variable, _, _ := strings.Cut(word, "=")
				name = fmt.Sprintf("its variable %.64q", variable)
			}
			switch {
			case strings.Contains(word, "\x00"):
				return notStartable(name + " contains NUL")
			case len(word) > MaxWord:
				return notStartable(fmt.Sprintf("%s has %d bytes, and Linux accepts %d", name, len(word), MaxWord))
			}
			total += len(word) + 1 + 8
		}
	}
	if total > maxWords {
		return notStartable(fmt.Sprintf("its arguments and variables have %d KiB, and Linux accepts %d", total>>10, maxWords>>10))
	}
	return nil
}

func notStartable(why string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "the program cannot start: %s", why).
		WithHint("shorten command and env of the call, or ENTRYPOINT, CMD and ENV of the image; a volume can hold large values")
}
