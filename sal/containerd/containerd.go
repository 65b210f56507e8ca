// Package containerd is the driver of containers. It uses a containerd daemon, which runs the containers with runc, and
// a separate containerd namespace. Images, volumes and networks come from other drivers of the host. A container gets
// its own layer on top of an image, limits, the directories of its volumes, and a network namespace. A logger process
// for each container stores its output in bounded files, independently of the runner. The package is independent of the
// origin of images and the routing of packets, and it never starts or stops the daemon.
//
// Files below Dir: records/ contains records in the format of package sal. results/ contains the results of
// container.run, see sal.Results. containers/NAME/ contains the files of one container, where NAME is
// writ.ResourceID.HostName. These are hosts, resolv.conf, the output in ID.log, and the pipes of programs that run in
// the container (exec/). ID.log.N-M is an earlier part of the output, see logfile.Log. ID.stderr.log is the error
// output of container.run. stages/ID exists only while the runtime makes a process, see package stage. The ID of a
// container at the daemon is NAME-GENERATION. A replacement is completely made beside the old container. Then the
// record is switched to the new container, and only after that the old container ends.
//
// The daemon stores the environment of a container, including its secrets, in its own store, which only root can read,
// until the container is deleted. Without the environment, the container could not be restarted. Records and labels
// contain no values of secrets.
package containerd

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/device"
	"writ/sal/containerd/health"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/initprogram"
	"writ/sal/containerd/registry"
)

// defaultGrace is the default of Driver.Grace.
const defaultGrace = 10 * time.Second

// Driver is the container driver. Close ends its connection.
type Driver struct {
	Connection
	Dir string // required: absolute path of the directory for all files of the driver
	// Program is the absolute path of the logger program. Its main function must begin with IsLogger.
	Program string
	Images  sal.Images
	Volumes sal.Volumes
	// Registries pulls images by reference. Its policy is empty if no registry is permitted.
	Registries registry.Source
	Budget     imagestore.Budget // limits pulled images; required with Registries
	Networks   sal.Networks      // may be nil: containers then have no networks
	// Others are the drivers of machines, which need exclusive access to their volumes: a container cannot use such a
	// volume. It may be empty.
	Others []sal.Users
	// IDs are user and group numbers of this host; each container gets userns.Many of them. If nil or off, containers use
	// the users and groups of the host.
	IDs      *confine.Accounts
	IDsAsked bool // IDs were requested explicitly: a host without them makes no containers
	// InitProgram is the path of the init program for containers; "" selects one of initprogram.Packaged.
	InitProgram string
	Devices     device.List   // devices of the host that containers may have
	Grace       time.Duration // time limit for a container to end when it is deleted or replaced; 0 means 10 s
	Log         *slog.Logger  // used by Run, which requires it
	// Step is called before every single change of the host. Tests use it to stop the driver there. It may be nil.
	Step Steps

	restarts restarts
	health   health.Book
	sharing  sharing
	probing  sync.Map // by HostName: a probe of Run runs a program in the container
	mappable mappability
	choosing sync.Mutex // locked from the choice of a container's IDs until they are recorded

	locks  sal.Locks // by HostName: serialises operations, Keep and Run for each resource
	images sal.Locks // by image name at the daemon: no image is removed while a container is made from it
}

// own holds the driver's part of a record, beside the spec.
type own struct {
	Phase phase `json:"phase"`
	// Container is the ID of the current container at the daemon; "" while the first container is made.
	Container string `json:"container,omitempty"`
	// Other is the ID of a second container, which must not exist in phase ready. It is the next container while it is
	// made, and the previous container after the switch.
	Other string `json:"other,omitempty"`
	// Beside is the spec of Other. The record's Spec describes Container, except while the first container is made:
	// then it describes Other, and Beside is nil.
	Beside  sal.Spec `json:"beside,omitempty"`
	Stopped bool     `json:"stopped,omitempty"` // stopped on request
	// How the last stopped or replaced process ended: see catalog.Container.
	Ended string `json:"ended,omitempty"`
	IDs   uint32 `json:"ids,omitempty"` // first of its user IDs on this host; 0 for the users of the host
	attachment
	LastExit   *lastExit      `json:"last_exit,omitempty"`   // last end of the program by itself
	Restarts   int64          `json:"restarts,omitempty"`    // by Keep or Run, after the process had ended
	Health     *health.State  `json:"health,omitempty"`      // as of its last change, for a restarted runner
	ImageCheck []string       `json:"image_check,omitempty"` // command of the image's health check, if the spec asks for it
	Ending     *endingProcess `json:"ending,omitempty"`      // set while Keep waits for the end of a process
	// Replaced is set while a replacement with a health check is being made and checked. If that fails, the driver
	// restores the properties in it.
	Replaced *replaced `json:"replaced,omitempty"`
	Run      *runState `json:"run,omitempty"` // set only for container.run
	// FilesChanging means that the files may differ from the spec, because a change of their content was interrupted.
	FilesChanging bool `json:"files_changing,omitempty"`
}

// replaced holds the properties of a replaced container that its spec does not contain.
type replaced struct {
	Stopped       bool     `json:"stopped,omitempty"`
	Runs          bool     `json:"runs,omitempty"` // the replaced container still runs: the replacement is a handover
	ImageCheck    []string `json:"image_check,omitempty"`
	FilesChanging bool     `json:"files_changing,omitempty"` // as in own
	attachment
}

// phase marks an operation that a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // Other, the first container, is being made
	replacing phase = "replacing" // Other is being made; Container is unchanged
	// Container is complete; Other must be removed, and Container must be started unless it is stopped.
	starting phase = "starting"
	// Container is complete and started, but was never healthy. Other, if any, is the stopped container that it replaces.
	checking phase = "checking"
	ready    phase = "ready" // complete, but a created process may have to be started
	// Container is a complete container of container.run. Its program was started once, or will be.
	pending  phase = "pending"
	finished phase = "finished" // the program of container.run has ended; LastExit has its exit code
	deleting phase = "deleting" // everything must be removed
)

type record = sal.Record[own]

var (
	_ sal.Metered = (*Driver)(nil)
	_ sal.Gauged  = (*Driver)(nil)
)

// Describe names the driver, and reports its init program and the devices that exist.
func (d *Driver) Describe() writ.NodeDriver {
	_, err := initprogram.Find(d.InitProgram)
	present, _ := d.Devices.Present()
	return writ.NodeDriver{
		Module: "container", Name: "containerd", Detail: "containerd at " + d.address(), Init: err == nil,
		Devices: present.Names(),
	}
}

// Observe returns the state of a container.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := recordsIn(d.Dir).Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	shown, err := show(ctx, d, r)
	if isAway(err) { // the container exists, but only the daemon knows its state
		shown.State = catalog.Unclear
		return sal.Observation{Exists: true, UID: r.UID, State: shown.State, Values: catalog.Values(shown)}, err
	}
	if err != nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: shown.State, Values: catalog.Values(shown)}
	if r.Own.Phase == making || r.Own.Phase == deleting {
		seen.State = string(r.Own.Phase)
	}
	return seen, ctx.Err()
}

// List returns every container that has a record, finished or not. Orphans reports containers without a record.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return recordsIn(d.Dir).Resources(ctx)
}

// Usage returns the resources of a running container, and its traffic if Networks can count it.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	var used sal.Usage
	r, err := recordsIn(d.Dir).Get(resource)
	if err != nil || r == nil {
		return used, err
	}
	shown, err := show(ctx, d, r)
	if err != nil {
		return used, err
	}
	if shown.State == running {
		used.CPUs, _ = catalog.HundredthsOf(r.Spec["cpus"])
		used.MemoryMiB, _ = r.Spec["memory_mib"].(int64)
	}
	if counts, ok := d.Networks.(sal.Traffic); ok {
		used.Received, used.Sent, err = counts.Traffic(ctx, ownerOf(r))
	}
	return used, err
}

// Load returns the CPU time and the memory of the cgroup of a container, and its restarts. It does not ask the daemon.
func (d *Driver) Load(_ context.Context, resource writ.ResourceID) (sal.Load, error) {
	r, err := recordsIn(d.Dir).Get(resource)
	if err != nil || r == nil {
		return sal.Load{}, err
	}
	l := sal.Load{UID: r.UID, Restarts: r.Own.Restarts}
	if r.Own.Container != "" {
		l.CPU, l.Memory, l.Running = cgroup.Taken(filepath.Join(d.namespace(), r.Own.Container))
	}
	return l, nil
}

// Do executes an operation on a container.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j, done, err := begin(ctx, d, request, d.locks.Take, d.reach)
	if err != nil {
		return sal.Outcome{}, err
	}
	defer done()
	outcome, err := j.do(j.in(ctx))
	if err != nil && ctx.Err() != nil {
		return sal.Outcome{}, ctx.Err() // replaces the daemon's error about the cancelled request
	}
	return outcome, err
}

// job is one task for one container.
type job struct {
	*Driver
	sal.Request
	daemon    *client.Client
	mostGrace time.Duration // limits graceOf; 0 means no limit
	keeps     bool          // the task is Keep, which must not wait long for one resource
}

// locking locks a name, or returns an error.
type locking func(ctx context.Context, name string) (done func(), err error)

// begin locks a resource and connects to the daemon. `done` unlocks it.
func begin(
	ctx context.Context, d *Driver, request sal.Request, lock locking,
	reach func(context.Context) (*client.Client, error),
) (j *job, done func(), err error) {
	done, err = lock(ctx, request.Resource.HostName())
	if err != nil {
		return nil, nil, err
	}
	daemon, err := reach(ctx)
	if err != nil {
		done()
		return nil, nil, err
	}
	return &job{Driver: d, Request: request, daemon: daemon}, done, nil
}

func (j *job) store() *imagestore.Store {
	return &imagestore.Store{Daemon: j.daemon, Locks: &j.images, Budget: &j.Budget, Step: j.Step.step}
}

func (j *job) do(ctx context.Context) (sal.Outcome, error) {
	switch j.Operation.Effect {
	case catalog.Remove:
		return j.remove(ctx)
	case catalog.Run:
		return runProgram(ctx, j)
	}
	r, err := recordsIn(j.Dir).Get(j.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	left, r, err := j.recovered(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	if j.Operation.Effect == catalog.Make {
		return j.make(ctx, left, r)
	}
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	switch args := j.Args.(type) {
	case *catalog.Stop:
		grace := time.Duration(args.GraceSeconds) * time.Second
		if err := leave(ctx, j, r, min(grace, drainLimit)); err != nil {
			return sal.Outcome{}, err
		}
		return j.stop(ctx, r, grace)
	case *catalog.ContainerExec:
		return j.exec(ctx, r, args)
	case *catalog.LogPart:
		return j.logs(ctx, r, args)
	case *catalog.Nothing:
		if j.Operation.Verb == "start" {
			return j.start(ctx, r)
		}
	}
	return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the containerd driver cannot do %s", j.Operation.Name())
}

// recovered finishes an operation that a crash interrupted, as far as this needs no secrets. If the container was never
// completed, it returns the record in left instead.
func (j *job) recovered(ctx context.Context, r *record) (left, recovered *record, err error) {
	if r == nil {
		return nil, nil, nil
	}
	switch r.Own.Phase {
	case making:
		return r, nil, nil
	case pending, finished:
		return recoverRun(ctx, j, r)
	case checking:
		return recoverChecking(ctx, j, r)
	case deleting:
		return nil, nil, j.clear(ctx, r)
	case replacing:
		return nil, r, j.dropReplacement(ctx, r)
	default:
		return nil, r, j.endPrograms(ctx, r)
	}
}

// outcome returns the result of an operation on an existing container.
func (j *job) outcome(ctx context.Context, r *record, change writ.Change) (sal.Outcome, error) {
	shown, err := show(ctx, j.Driver, r)
	return sal.Outcome{Change: change, Values: catalog.Values(shown)}, err
}

// show returns the container as operations report it.
func show(ctx context.Context, d *Driver, r *record) (catalog.Container, error) {
	c := catalog.Container{
		Identity: catalog.Identify(r.Resource, r.UID, false), State: stopped, Addresses: r.Own.Addresses,
		Ended: r.Own.Ended, Published: r.Own.Published,
	}
	c.IPv4 = catalog.IPv4Of(r.Own.IPv4)
	if len(c.Addresses) > 0 {
		c.Address = c.Addresses[0]
	}
	lastEnd(r, containerState{}, d.namespace()).show(&c)
	if r.Own.Container == "" {
		return c, nil
	}
	reached, err := d.reachCached(ctx)
	if err != nil {
		return c, err
	}
	now, err := inspect(d.in(ctx), reached, r.Own.Container)
	if now.running() {
		c.State, c.Health = running, healthOf(d, r)
	}
	lastEnd(r, now, d.namespace()).show(&c)
	return c, err
}

// Container states as reported to people.
const (
	running = "running"
	stopped = "stopped"
)

// recordsIn returns the records of the driver with this directory.
func recordsIn(dir string) *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(dir, "records")}
}

// put sets the phase and writes the record, as one step.
func (j *job) put(r *record, p phase) error {
	j.Step.step("record that the container is " + string(p))
	r.Own.Phase = p
	return recordsIn(j.Dir).Put(r)
}

// placeOf returns the directory of a container's files in the driver's directory.
func placeOf(dir string, resource writ.ResourceID) string {
	return filepath.Join(dir, "containers", resource.HostName())
}

// Steps receives the name of each step before it runs. It may be nil.
type Steps func(name string)

func (s Steps) step(name string) {
	if s != nil {
		s(name)
	}
}
