package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"writ"
	"writ/internal/imageref"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/device"
	"writ/sal/containerd/health"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/initprogram"
	"writ/sal/containerd/registry"
	"writ/sal/containerd/runtimespec"
)

const (
	// maxProcesses limits the processes and threads of a container, so that a fork bomb cannot stop the node.
	maxProcesses = 4096
	// period is the CPU accounting period in microseconds: the kernel's default.
	period = 100_000
)

// Labels of containers at the daemon. They contain no values that may be secret.
const (
	labelResource = "writ.resource" // writ.ResourceID.HostName
	labelProject  = "writ.project"
	labelName     = "writ.name"
	labelUID      = "writ.uid"
	labelIDs      = "writ.ids" // first of its own user IDs on this host, if it has any
	labelStop     = "writ.stop-signal"
)

// plan holds the inputs of a new container, resolved before any change.
type plan struct {
	image    imagestore.Image
	networks []writ.Ref
	args     *catalog.ContainerCreate
	env      []string
	mounts   []specs.Mount
	files    []*runtimespec.File // in the order of their paths
	init     string              // path of the init program on the host; "" for none
	devices  []device.Device     // in the order of the arguments

	imageCheck []string // command of the image's health check, if the request needs it; set after the image is unpacked
}

// plan resolves everything that the request names.
func (j *job) plan(ctx context.Context) (*plan, error) {
	args := createArgs(j.Args)
	if args == nil {
		return nil, writ.Errorf(writ.CodeDriverMissing, "the containerd driver cannot do %s", j.Operation.Name())
	}
	p := &plan{args: args, networks: args.Networks}
	if _, err := health.Parse(args.HealthCheck()); err != nil {
		return nil, err
	}
	var err error
	if p.image, err = imageOf(ctx, j, args); err != nil {
		return nil, err
	}
	if p.mounts, err = j.mounts(ctx, args); err != nil {
		return nil, err
	}
	if p.files, err = filesIn(args); err != nil {
		return nil, err
	}
	if args.Init {
		if p.init, err = initprogram.Require(j.InitProgram); err != nil {
			return nil, err
		}
	}
	if p.devices, err = j.Devices.FindAll(args.Devices); err != nil {
		return nil, err
	}
	p.env, err = variables(args.Env)
	return p, err
}

// imageOf returns the image of a container: an archive that the image driver fetched, or an image at a registry.
func imageOf(ctx context.Context, j *job, args *catalog.ContainerCreate) (imagestore.Image, error) {
	if imageref.Looks(args.Image.Name) {
		return atRegistry(j, args)
	}
	image, err := j.Images.Image(ctx, j.Resource.Project, args.Image)
	if err == nil {
		err = sal.CheckFormat(j.Operation.Name(), "image", j.Resource.Project, args.Image, image)
	}
	return imagestore.Archive(image), err
}

// atRegistry returns an image at a registry. The reference has a digest, because the runner rejects other references.
func atRegistry(j *job, args *catalog.ContainerCreate) (imagestore.Image, error) {
	reference, err := imageref.Parse(args.Image.Name)
	if err != nil || reference.Digest == "" {
		return imagestore.Image{}, writ.Errorf(writ.CodeImageUnresolved, "the reference %q has no digest", args.Image.Name)
	}
	login := func() (registry.Login, error) {
		password, err := args.Login.Password.Reveal()
		return registry.Login{User: args.Login.User, Password: password}, err
	}
	return imagestore.Pulled(&j.Registries, j.Resource.Project, reference, login, j.Progress), nil
}

// variables returns texts as an environment.
func variables(texts map[string]catalog.Text) ([]string, error) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		value, err := texts[name].Reveal()
		if err != nil {
			return nil, err
		}
		all = append(all, name+"="+value)
	}
	return all, nil
}

// write writes the files for the container's /etc. It runs before each start, so the files need not survive a power
// cut.
func (j *job) write(r *record) error {
	place := placeOf(j.Dir, r.Resource)
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, address := range ownNames(r) {
		fmt.Fprintf(&hosts, "%s %s\n", address, r.Resource.Name)
	}
	var resolv strings.Builder
	for _, server := range r.Own.Nameservers {
		fmt.Fprintf(&resolv, "nameserver %s\n", server)
	}
	j.Step.step("write the files")
	err := os.MkdirAll(place, 0o700)
	if err == nil {
		err = os.WriteFile(writtenFile(j.Dir, r, "hosts"), []byte(hosts.String()), 0o644)
	}
	if err == nil { // even without nameservers: a container that was made with nameservers mounts the file
		err = os.WriteFile(writtenFile(j.Dir, r, "resolv.conf"), []byte(resolv.String()), 0o644)
	}
	if err != nil {
		return sal.HostError("write the files of "+r.Resource.String(), err)
	}
	return nil
}

// writtenFile returns the path of a file for the container's /etc. The sides of a container have different files.
func writtenFile(dir string, r *record, name string) string {
	if r.Own.Side != 0 {
		name += "-" + strconv.Itoa(r.Own.Side)
	}
	return filepath.Join(placeOf(dir, r.Resource), name)
}

// ownNames returns the addresses for a container's own host name: the first of each family, or loopback without
// networks.
func ownNames(r *record) []string {
	var all []string
	for _, family := range [][]string{r.Own.Addresses, r.Own.IPv4} {
		if len(family) > 0 {
			all = append(all, family[0])
		}
	}
	if all == nil {
		return []string{"127.0.1.1"}
	}
	return all
}

// register makes the container at the daemon: it unpacks the image, and makes the layer and the daemon's container
// object.
func (j *job) register(ctx context.Context, r *record, p *plan) error {
	keeps, err := imagestore.Snapshotter(ctx, j.daemon)
	if err != nil {
		return err
	}
	done, err := j.images.Take(ctx, p.image.Name) // until the container exists and uses the image
	if err != nil {
		return err
	}
	defer done()
	// This message is the same if the daemon has the image already, because a different message would reveal images of
	// other projects.
	j.Progress("preparing the image")
	image, err := j.store().Unpacked(ctx, p.image, keeps)
	if err != nil {
		return err
	}
	if p.args.Health.Image {
		if p.imageCheck, err = runtimespec.HealthCommand(ctx, image); err != nil {
			return failed("read the health check of the image", err)
		}
	}
	j.Step.step("make the container")
	// The lease protects the layer until the container exists and refers to it. A container with its own users does not
	// refer to its layer (see withOwnUsers), so its lease stays until the container is discarded.
	id := r.Own.Other
	lease := leases.Lease{ID: id}
	if _, err := j.daemon.LeasesService().Create(ctx, leases.WithID(id)); err != nil && !exists(err) {
		return failed("make "+r.Resource.String(), err)
	}
	labels := map[string]string{
		labelResource: r.Resource.HostName(), labelProject: string(r.Resource.Project), labelName: r.Resource.Name,
		labelUID: string(r.UID),
	}
	if p.args.StopSignal != "" {
		labels[labelStop] = p.args.StopSignal
	}
	how := []client.NewContainerOpts{
		client.WithContainerLabels(labels),
		client.WithImage(image),
		client.WithSnapshotter(keeps),
		client.WithNewSnapshot(id, image),
		client.WithNewSpec(j.spec(r, p, image)...),
	}
	if r.Own.IDs != 0 {
		if err := checkLimits(ctx, j, p.args.Ulimits); err != nil {
			return err
		}
		labels[labelIDs] = strconv.FormatUint(uint64(r.Own.IDs), 10)
		how = append(how, withOwnUsers(r.Own.IDs))
	}
	_, err = j.daemon.NewContainer(leases.WithLease(ctx, id), id, how...)
	if err == nil && r.Own.IDs == 0 {
		err = j.daemon.LeasesService().Delete(ctx, lease)
	}
	return failed("make "+r.Resource.String(), err)
}

// checkLimits rejects limits above the hard limits of the daemon's process. If this process is unknown, the kernel
// decides.
func checkLimits(ctx context.Context, j *job, limits catalog.Ulimits) error {
	if limits == (catalog.Ulimits{}) {
		return nil
	}
	server, err := j.daemon.IntrospectionService().Server(ctx)
	if err != nil {
		return nil
	}
	return runtimespec.CheckLimits(limits, int(server.Pid))
}

// withOwnUsers prevents the daemon from mounting the layer, because the driver mounts it with mapped IDs. It also makes
// the container's root the owner of the pipes of programs.
func withOwnUsers(first uint32) client.NewContainerOpts {
	return func(ctx context.Context, daemon *client.Client, c *containers.Container) error {
		c.Snapshotter, c.SnapshotKey = "", ""
		return client.WithRuntime(defaults.DefaultRuntime, &options.Options{IoUid: first, IoGid: first})(ctx, daemon, c)
	}
}

// spec returns the options of the container's runtime spec.
func (j *job) spec(r *record, p *plan, image client.Image) []oci.SpecOpts {
	ours := func(name string) specs.Mount {
		return specs.Mount{Destination: "/etc/" + name, Type: "bind", Source: writtenFile(j.Dir, r, name),
			Options: []string{"rbind", "nosuid", "nodev", "noexec", "ro"}}
	}
	mounts := append(j.volumes(r, p), ours("hosts"))
	mounts = append(mounts, runtimespec.Tmpfs(p.args.Tmpfs, p.args.MemoryMiB<<20)...)
	for i, f := range p.files {
		mounts = append(mounts, specs.Mount{Destination: f.Path, Type: "bind", Source: sourceOf(j.Driver, r, i),
			Options: []string{"rbind", "nosuid", "nodev", "ro"}})
	}
	if len(r.Own.Nameservers) > 0 { // the image's own file comes from its build host
		mounts = append(mounts, ours("resolv.conf"))
	}
	if p.init != "" {
		mounts = append(mounts, runtimespec.InitMount(p.init))
	}
	mounts = append(mounts, runtimespec.DeviceMounts(p.devices, stageOf(j.Driver, r.Own.Other).Device)...)
	over := runtimespec.Overrides{User: p.args.User, Dir: p.args.Workdir}
	options := []oci.SpecOpts{runtimespec.WithImageConfig(image, over, r.Own.IDs != 0)}
	if len(p.args.Command) > 0 {
		options = append(options, oci.WithProcessArgs(p.args.Command...))
	}
	options = append(options, runtimespec.RequireProgram)
	if p.init != "" {
		options = append(options, runtimespec.WithInit)
	}
	options = append(options,
		oci.WithEnv(p.env),
		runtimespec.RequireStartable,
		oci.WithHostname(r.Resource.Name),
		runtimespec.WithFiles(p.files, r.Own.IDs != 0),
		oci.WithMounts(byDepth(mounts)),
		runtimespec.WithOwnTmpfs,
		oci.WithCPUCFS(int64(p.args.CPUs)*period/100, period),
		runtimespec.WithMemory(p.args.MemoryMiB<<20),
		oci.WithPidsLimit(maxProcesses),
		runtimespec.WithLimits(p.args.Ulimits),
		runtimespec.WithLowPorts,
		runtimespec.WithoutCmdline,
		runtimespec.WithDevices(p.devices),
		runtimespec.WithSeccomp, // last, because it depends on the capabilities
	)
	if p.args.ReadOnly {
		options = append(options, oci.WithRootFSReadonly())
	}
	if r.Own.IDs != 0 {
		options = append(options, oci.WithUserNamespace(idMap(r.Own.IDs), idMap(r.Own.IDs)),
			oci.WithLinuxNamespace(specs.LinuxNamespace{
				Type: specs.UserNamespace, Path: stageOf(j.Driver, r.Own.Other).User(),
			}))
	}
	if r.Own.Namespace != "" {
		options = append(options,
			oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: r.Own.Namespace}))
	}
	return options
}

// volumes returns the mounts of the volumes. For a container with its own users, their source is on its stage; see
// package stage.
func (j *job) volumes(r *record, p *plan) []specs.Mount {
	all := slices.Clone(p.mounts)
	for i := range all {
		if r.Own.IDs != 0 {
			all[i].Source = stageOf(j.Driver, r.Own.Other).Volume(i)
		}
	}
	return all
}

// renew updates the parts of a container's spec that depend on the host, before a start: the path of its init program,
// and the paths and numbers of its devices. It returns an error if the host no longer has the program or a device.
func renew(ctx context.Context, j *job, r *record, args *catalog.ContainerCreate) error {
	if !args.Init && len(args.Devices) == 0 {
		return nil
	}
	devices, err := j.Devices.FindAll(args.Devices)
	if err != nil {
		return err
	}
	c, err := j.daemon.LoadContainer(ctx, r.Own.Container)
	if err != nil {
		return failed("find the container", err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return failed("inspect the container", err)
	}
	before, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if args.Init {
		program, err := initprogram.Require(j.InitProgram)
		if err != nil {
			return err
		}
		runtimespec.ReplaceMount(spec, runtimespec.InitMount(program))
	}
	runtimespec.ReplaceDevices(spec, devices, stageOf(j.Driver, r.Own.Container).Device)
	after, err := json.Marshal(spec)
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	j.Step.step("change the init program or the devices")
	return failed("change the spec of the container", c.Update(ctx, client.UpdateContainerOpts(client.WithSpec(spec))))
}

// reconnect updates the network namespace in the spec of a container if its path has changed.
func reconnect(ctx context.Context, c client.Container, path string) error {
	spec, err := c.Spec(ctx)
	if err != nil {
		return err
	}
	if spec.Linux == nil {
		return errors.New("the container has no spec for Linux")
	}
	if slices.ContainsFunc(spec.Linux.Namespaces,
		func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace && n.Path == path }) {
		return nil
	}
	return c.Update(ctx, client.UpdateContainerOpts(client.WithSpec(spec,
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: path}))))
}
