// Package containerd is the driver of containers: it asks a containerd daemon to run them with runc, in a namespace of its own there.
// Images, volumes and networks come from other drivers of the host; a container gets a layer of its own above an image, limits, the
// directories of its volumes, and a network namespace. What a container writes is kept in bounded files, by a process for each container
// that needs no runner. It must not know where images come from nor how packets go, and it never starts or stops the daemon.
//
// On disk, below Dir: records/ as package sal writes them; containers/NAME/ the files of one container, where NAME is
// writ.ResourceID.HostName: hosts, resolv.conf, what it wrote (ID.log, and ID.log.N-M before it, see sal.Log), and the pipes of programs that
// run in it (exec/); stages/ID, which is there only while the runtime makes a process (see stage.go). A container has the
// id NAME-GENERATION at the daemon. One that replaces another is made as a whole beside it; then the record says which of the two counts,
// and only after that the old one ends.
//
// The daemon keeps the environment of a container, with its secrets, in its own store, which root alone can read, until the container is
// deleted: without them it could not be started again. Neither records nor labels have their values.
package containerd

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
)

// What a Driver does without being told otherwise.
const (
	DefaultAddress   = "/run/containerd/containerd.sock"
	DefaultNamespace = "writ"
	defaultPatience  = 10 * time.Second
	defaultGrace     = 10 * time.Second
)

// Driver is the container driver. Close ends its connection.
type Driver struct {
	Dir       string // required: an absolute path; everything is kept below it
	Address   string // the socket of the daemon, "" is DefaultAddress
	Namespace string // of the daemon, which nobody else may use; "" is DefaultNamespace
	// Program is the absolute path of the program that keeps what containers write: one whose main function begins with IsLogger.
	Program  string
	Images   sal.Images
	Volumes  sal.Volumes
	Networks sal.Networks // may be nil: containers have no networks then
	// Others are who want the volumes alone that they have; there may be none.
	Others []sal.Users
	// IDs are numbers of users and groups of this host; each container gets userns.Many of them. Nil, or off: containers have the host's.
	IDs      *confine.Accounts
	IDsAsked bool          // somebody asked for these numbers: no container is made without
	Grace    time.Duration // how long a container may take to end when it is deleted or replaced; 0 is 10 s
	Patience time.Duration // how long a daemon that listens may take to answer; 0 is 10 s
	Log      *slog.Logger  // of Run; required for that
	// Step is called before every single change of the host; tests stop the driver there. It may be nil.
	Step func(name string)

	absent   absence
	choosing sync.Mutex // of users, until the choice is recorded

	locks  sal.Locks // of resources, by HostName: operations, Keep and Run do not meet on one
	images sal.Locks // of images, by their name at the daemon: none is removed while it gets a user

	mu       sync.Mutex
	client   *client.Client      // nil until it is needed
	restarts map[string]*restart // by HostName: containers that do not stay up
	maps     bool                // containers can have users of their own here
	mended   map[string][]string // by HostName: what Run has mended since Keep told of it
}

// own is what a record keeps besides the spec.
type own struct {
	Phase phase `json:"phase"`
	// Container is the one that counts, by its id at the daemon; "" while the first one is made.
	Container string `json:"container,omitempty"`
	// Other is one that must not be there when the phase is ready: the next one while it is made, the old one after that.
	Other string `json:"other,omitempty"`
	// Beside is what Other is made of, as Spec is what Container is. Nil while the first one is made, which has the Spec.
	Beside    sal.Spec `json:"beside,omitempty"`
	Stopped   bool     `json:"stopped,omitempty"`   // somebody asked for that
	Ended     string   `json:"ended,omitempty"`     // how the last process ended that was stopped or replaced: see catalog.Container
	IDs       uint32   `json:"ids,omitempty"`       // the first of its users on this host; 0 if it has those of the host
	Namespace string   `json:"namespace,omitempty"` // the file of its network namespace
	Addresses []string `json:"addresses,omitempty"`
	IPv4      []string `json:"ipv4,omitempty"` // on its networks that have it; of an earlier version none, until its next start
	// Nameservers are whom it asks for names. Without one it has the image's own /etc/resolv.conf.
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	LastExit    *lastExit    `json:"last_exit,omitempty"` // how the program last ended by itself
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // Other is being made, and is the first
	replacing phase = "replacing" // Other is being made, and Container is as ever
	starting  phase = "starting"  // Container is whole; Other has to go, and unless it is stopped Container has to be started
	ready     phase = "ready"     // nothing is to be done but to start a process that was made and never started
	deleting  phase = "deleting"  // everything has to go
)

type record = sal.Record[own]

// Describe names the driver.
func (d *Driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "container", Name: "containerd", Detail: "containerd at " + d.address()}
}

// Observe looks at a container.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	shown, err := d.show(ctx, r)
	if isAway(err) { // it is there, and only the daemon knows how it does
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

// List returns every container that has a record, finished or not. What the daemon has besides is told by Orphans.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do carries out an operation on a container.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j, done, err := d.begin(ctx, request, d.reach)
	if err != nil {
		return sal.Outcome{}, err
	}
	defer done()
	outcome, err := j.do(j.in(ctx))
	if err != nil && ctx.Err() != nil {
		return sal.Outcome{}, ctx.Err() // whatever the daemon said when it was cut off
	}
	return outcome, err
}

// job is one piece of work on one container.
type job struct {
	*Driver
	sal.Request
	daemon *client.Client
}

// begin takes the turn on a resource, and reaches the daemon.
func (d *Driver) begin(ctx context.Context, request sal.Request, reach func(context.Context) (*client.Client, error)) (j *job, done func(), err error) {
	done, err = d.locks.Take(ctx, request.Resource.HostName())
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

func (j *job) do(ctx context.Context) (sal.Outcome, error) {
	if j.Operation.Effect == catalog.Remove {
		return j.remove(ctx)
	}
	r, err := j.records().Get(j.Resource)
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
		return j.stop(ctx, r, time.Duration(args.GraceSeconds)*time.Second)
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

// recovered finishes what a crash interrupted as far as that needs no secrets. A container that was never finished does not exist; left is
// its record.
func (j *job) recovered(ctx context.Context, r *record) (left, recovered *record, err error) {
	if r == nil {
		return nil, nil, nil
	}
	switch r.Own.Phase {
	case making:
		return r, nil, nil
	case deleting:
		return nil, nil, j.clear(ctx, r)
	case replacing:
		return nil, r, j.dropReplacement(ctx, r)
	default:
		return nil, r, j.endPrograms(ctx, r)
	}
}

// outcome is that of an operation on a container which is there.
func (j *job) outcome(ctx context.Context, r *record, change writ.Change) (sal.Outcome, error) {
	shown, err := j.show(ctx, r)
	return sal.Outcome{Change: change, Values: catalog.Values(shown)}, err
}

// show is what a handle to the container offers.
func (d *Driver) show(ctx context.Context, r *record) (catalog.Container, error) {
	c := catalog.Container{Identity: catalog.Identify(r.Resource, r.UID, false), State: stopped, Addresses: r.Own.Addresses, Ended: r.Own.Ended}
	c.IPv4 = catalog.IPv4Of(r.Own.IPv4)
	if len(c.Addresses) > 0 {
		c.Address = c.Addresses[0]
	}
	d.lastEnd(r, sight{}).show(&c)
	if r.Own.Container == "" {
		return c, nil
	}
	daemon, err := d.glance(ctx)
	if err != nil {
		return c, err
	}
	now, err := look(d.in(ctx), daemon, r.Own.Container)
	if now.running() {
		c.State = running
	}
	d.lastEnd(r, now).show(&c)
	return c, err
}

// The states of a container for people.
const (
	running = "running"
	stopped = "stopped"
)

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records")}
}

// put writes a record, as one step.
func (d *Driver) put(r *record, p phase) error {
	d.step("record that the container is " + string(p))
	r.Own.Phase = p
	return d.records().Put(r)
}

// place is the directory of a container's files.
func (d *Driver) place(resource writ.ResourceID) string {
	return filepath.Join(d.Dir, "containers", resource.HostName())
}

func (d *Driver) address() string      { return cmp.Or(d.Address, DefaultAddress) }
func (d *Driver) grace() time.Duration { return cmp.Or(d.Grace, defaultGrace) }
func (d *Driver) namespace() string    { return cmp.Or(d.Namespace, DefaultNamespace) }

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
