package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/containerd/containerd/v2/client"
	mounting "github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/runtime-spec/specs-go"

	"writ"
	"writ/internal/confine"
	"writ/internal/userns"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/stage"
	"writ/sal/needs"
)

// A container has a user namespace: its users and groups from 0 to userns.Many-1 map to host numbers that it shares
// with no other container or user. Root in a container therefore has no rights on the host or in other containers. The
// record of the container contains the numbers as long as any file or process may use them. The files on disk have the
// numbers that the container sees, because its layer and its volumes are mounted with mapped IDs. A container that was
// made before this feature keeps the users of the host until it is deleted.

// recordMaking chooses the users of a new container and records that it is being made.
func (j *job) recordMaking(ctx context.Context, r *record) error {
	j.choosing.Lock() // until the choice is recorded
	defer j.choosing.Unlock()
	var err error
	if r.Own.IDs, err = j.chooseIDs(ctx); err != nil {
		return err
	}
	return j.put(r, making)
}

// chooseIDs returns the first user number for a new container. If this host does not support user mapping, it returns
// 0, or DRIVER_MISSING if IDs were requested explicitly. It returns DRIVER_REFUSED if no numbers are left.
func (j *job) chooseIDs(ctx context.Context) (uint32, error) {
	if !j.IDs.Used() {
		return 0, nil
	}
	if lack, err := j.mappable.lack(ctx, j.daemon, j.IDs, j.Dir); err != nil || lack != nil {
		if err == nil && j.IDsAsked {
			err = writ.Errorf(writ.CodeDriverMissing, "%s cannot run with its own users: %w", j.Resource, lack).
				WithHint("%s", idsFix)
		}
		return 0, err
	}
	used, err := j.usedIDs(ctx)
	if err != nil {
		return 0, err
	}
	places := &confine.Accounts{Last: (j.IDs.Last-j.IDs.SharedGroup+1)/userns.Many - 1}
	first := func(place uint32) uint32 { return j.IDs.SharedGroup + place*userns.Many }
	place, err := places.Choose(j.Resource.HostName(), func(place uint32) bool {
		return slices.ContainsFunc(used, func(other uint32) bool { // other may come from an earlier range of the node
			return first(place) < other+userns.Many && other < first(place)+userns.Many
		})
	})
	if err != nil {
		return 0, writ.Errorf(writ.CodeDriverRefused, "no user numbers are left for %s: other containers use all of %s",
			j.Resource, j.IDs.Numbers()).
			WithHint("delete containers, or start the node with more numbers: writ runner --container-ids")
	}
	return first(place), nil
}

// usedIDs returns the first user numbers of all containers, including those with damaged records.
func (j *job) usedIDs(ctx context.Context) ([]uint32, error) {
	records, damaged, err := recordsIn(j.Dir).List()
	if err != nil {
		return nil, err
	}
	var used []uint32
	for _, r := range records {
		if r.Own.IDs != 0 {
			used = append(used, r.Own.IDs)
		}
	}
	if len(damaged) == 0 {
		return used, nil
	}
	all, err := j.daemon.ContainerService().List(ctx)
	if err != nil {
		return nil, failed("list the containers", err)
	}
	for _, c := range all {
		if first, err := strconv.ParseUint(c.Labels[labelIDs], 10, 32); err == nil {
			used = append(used, uint32(first))
		}
	}
	return used, nil
}

func stageOf(d *Driver, id string) stage.Stage {
	return stage.Stage{Dir: filepath.Join(d.Dir, "stages", id), Step: d.Step.step}
}

// onStage fills the stage of a container, calls `do`, and clears the stage. root is the mount of the root file system
// for the process, or nil if the daemon mounts it. The stage of a container without its own users only has device
// nodes.
func onStage(
	ctx context.Context, j *job, r *record, id string, args *catalog.ContainerCreate,
	do func(root []mounting.Mount) error,
) (err error) {
	if r.Own.IDs == 0 && len(args.Devices) == 0 {
		return do(nil)
	}
	s := stageOf(j.Driver, id)
	if err := s.Clear(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Clear()) }()
	devices, err := j.Devices.FindAll(args.Devices)
	if err == nil {
		err = s.MakeDevices(devices, r.Own.IDs)
	}
	if err != nil {
		return sal.HostError("make the device nodes of "+r.Resource.String(), err)
	}
	if r.Own.IDs == 0 {
		return do(nil)
	}
	if err := fillStage(ctx, j, r, s, id, args); err != nil {
		return sal.HostError("map the files of "+r.Resource.String()+" to its users", err)
	}
	return do([]mounting.Mount{{Type: "bind", Source: s.Root(), Options: []string{"rbind", "rw"}}})
}

func fillStage(
	ctx context.Context, j *job, r *record, s stage.Stage, id string, args *catalog.ContainerCreate,
) error {
	user, err := userOf(r)
	if err != nil {
		return err
	}
	defer user.Close()
	c := stage.Content{User: user, IDs: r.Own.IDs}
	if len(args.Files) > 0 {
		c.Files = filesDir(j.Driver, j.Resource, id)
	}
	for _, m := range args.Volumes {
		volume, err := j.Volumes.Volume(ctx, j.Resource.Project, m.Volume)
		if err != nil {
			return err
		}
		c.Volumes = append(c.Volumes, volume.Dir)
	}
	if c.Layer, err = layerMounts(ctx, j, id); err != nil {
		return err
	}
	return s.Fill(c)
}

// userOf returns the user namespace of a container. This is the user namespace that owns its network namespace. If it
// has no recorded network namespace, it is a new user namespace. In a network namespace with another owner, the
// container's root would lack its rights, such as listening on port 80.
func userOf(r *record) (*os.File, error) {
	if r.Own.Namespace != "" {
		return userns.OfNetwork(r.Own.Namespace)
	}
	return userns.Open(r.Own.IDs)
}

// layerMounts returns the mounts of a container's layer, as the daemon would mount it.
func layerMounts(ctx context.Context, j *job, id string) ([]mounting.Mount, error) {
	for _, name := range imagestore.Snapshotters {
		mounts, err := j.daemon.SnapshotService(name).Mounts(ctx, id)
		if gone(err) || err != nil && imagestore.NoSnapshotter(err) {
			continue
		}
		return mounts, failed("find the container's layer", err)
	}
	return nil, fmt.Errorf("containerd has no layer %s", id)
}

// idMap returns the ID mapping of a container for the runtime.
func idMap(first uint32) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{HostID: first, Size: userns.Many}}
}

// idsFix is the remedy on a host where containers cannot have their own users.
const idsFix = "boot Linux 5.19 or newer. sysctl user.max_user_namespaces=15000. Keep the node's data and containerd's root on ext4, xfs or btrfs. " +
	"Or writ runner --container-ids none"

// mappability remembers that this host can give containers their own users.
type mappability struct {
	mu    sync.Mutex
	works bool
}

// lack returns the reason why this host cannot give containers their own users, or nil if it can. dir is the directory
// of the driver.
func (m *mappability) lack(
	ctx context.Context, daemon *client.Client, ids *confine.Accounts, dir string,
) (lack, err error) {
	m.mu.Lock()
	works := m.works
	m.mu.Unlock()
	if works {
		return nil, nil
	}
	keeps, root, err := layers(ctx, daemon)
	if err != nil {
		return nil, err
	}
	if keeps == "overlayfs" {
		lack = stage.Supported()
	}
	own := needs.Nearest(dir)
	for _, dir := range []string{own, cmp.Or(root, own)} {
		if lack == nil {
			lack = userns.Try(ids.SharedGroup, dir)
		}
	}
	m.mu.Lock()
	m.works = lack == nil
	m.mu.Unlock()
	return lack, nil
}

// check describes the users of containers. It returns an error if containers use the users of the host.
func (m *mappability) check(ctx context.Context, c *Connection, ids *confine.Accounts, dir string) (string, error) {
	if ids == nil {
		return "", errors.New("containers use the users of the host")
	}
	if ids.Off != nil {
		return "", ids.Off
	}
	daemon, err := c.examined(ctx)
	if err != nil {
		return "", err
	}
	lack, err := m.lack(c.in(ctx), daemon, ids, dir)
	if err != nil {
		return "", errors.New(writ.AsError(err).Message)
	}
	if lack != nil {
		return "", lack
	}
	return fmt.Sprintf("%d for each, from %s", userns.Many, ids.Numbers()), nil
}

// layers returns the snapshotter and its root directory. root is "" if the daemon does not report the directory.
func layers(ctx context.Context, daemon *client.Client) (keeps, root string, err error) {
	if keeps, err = imagestore.Snapshotter(ctx, daemon); err != nil {
		return "", "", err
	}
	plugins, err := daemon.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return "", "", failed("ask containerd for its snapshotters", err)
	}
	for _, p := range plugins.Plugins {
		if p.ID == keeps {
			root = p.Exports["root"]
		}
	}
	return keeps, root, nil
}
