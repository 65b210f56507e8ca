package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	mounting "github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/moby/sys/user"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// searchPath is where a container looks for programs if its image does not say.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// asItsImageSays gives a container the program, the environment, the directory and the user that its image names. It rejects an image whose
// stop signal is invalid. oci.WithImageConfig does the same, and can read templates of mounts besides. With text/template a program keeps every exported method of every type, which are 10 MB of writ.
func asItsImageSays(image client.Image) oci.SpecOpts {
	return func(ctx context.Context, daemon oci.Client, c *containers.Container, s *oci.Spec) error {
		described, err := image.Spec(ctx)
		if err != nil {
			return fmt.Errorf("read what the image says of its containers: %w", err)
		}
		config := described.Config
		if _, err := parseStopSignal(config.StopSignal); err != nil {
			return err
		}
		s.Process.Args = slices.Concat(config.Entrypoint, config.Cmd)
		s.Process.Cwd = cmp.Or(config.WorkingDir, "/")
		if s.Process.Env = config.Env; len(config.Env) == 0 {
			s.Process.Env = []string{searchPath}
		}
		layer, err := daemon.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
		if err != nil {
			return fmt.Errorf("find the container's layer: %w", err)
		}
		return mounting.WithReadonlyTempMount(ctx, layer, func(dir string) error {
			root, err := os.OpenRoot(dir) // links of the image do not lead out of it
			if err != nil {
				return fmt.Errorf("open the container's layer: %w", err)
			}
			defer root.Close()
			s.Process.User, err = userOfImage(root.FS(), config.User)
			return err
		})
	}
}

// userOfImage finds the user that an image names, as "user" or "user:group", in the files of its layer. A number needs no entry there; "" is root.
func userOfImage(layer fs.FS, named string) (specs.User, error) {
	account, gid, err := user.User{Name: "root"}, uint32(0), error(nil)
	if named != "" {
		account, gid, err = accountOf(layer, named)
	}
	if err != nil {
		return specs.User{}, fmt.Errorf("find the user %q of the image: %w", named, err)
	}
	more, err := groupsOf(layer, account.Name)
	if err != nil {
		return specs.User{}, fmt.Errorf("find the groups of the user %q of the image: %w", named, err)
	}
	if !slices.Contains(more, gid) {
		more = slices.Insert(more, 0, gid)
	}
	return specs.User{UID: uint32(account.Uid), GID: gid, AdditionalGids: more}, nil
}

// accountOf finds an account and its group; another group may be named behind a colon.
func accountOf(layer fs.FS, named string) (account user.User, gid uint32, err error) {
	name, group, grouped := strings.Cut(named, ":")
	number, isNumber, err := idOf(name)
	if err != nil {
		return account, 0, err
	}
	account, err = oci.UserFromFS(layer, func(a user.User) bool {
		if isNumber {
			return a.Uid == number
		}
		return a.Name == name
	})
	switch unknown := errors.Is(err, fs.ErrNotExist) || errors.Is(err, oci.ErrNoUsersFound); {
	case unknown && isNumber:
		account = user.User{Uid: number}
	case err != nil:
		return account, 0, err
	}
	if !grouped {
		return account, uint32(account.Gid), nil
	}
	if number, isNumber, err = idOf(group); err != nil || isNumber {
		return account, uint32(number), err
	}
	gid, err = oci.GIDFromFS(layer, func(g user.Group) bool { return g.Name == group })
	return account, gid, err
}

// idOf parses the number of a user or group. The runtime takes no larger ones.
func idOf(text string) (id int, isNumber bool, err error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, false, nil
	case err != nil || n < 0 || n > math.MaxInt32:
		return 0, false, fmt.Errorf("%s is no number of a user or group", text)
	}
	return int(n), true, nil
}

// groupsOf are the groups that list an account as a member, by their numbers.
func groupsOf(layer fs.FS, account string) (all []uint32, err error) {
	_, err = oci.GIDFromFS(layer, func(g user.Group) bool {
		if g.Name != account && slices.Contains(g.List, account) {
			all = append(all, uint32(g.Gid))
		}
		return false // all of them are looked at
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, oci.ErrNoGroupsFound) {
		return all, nil
	}
	return all, err
}
