// Package cloudhypervisor is the driver of virtual machines: a cloud-hypervisor process for each. It knows how such a process is started,
// recognised, spoken to and ended, and what a machine needs around it: disks, taps, a disk with what cloud-init reads, a console. It must
// not know where images, volumes and networks come from.
//
// On disk, below Dir: records/ as package sal writes them, and machines/NAME, where NAME is writ.ResourceID.HostName:
//
//	api.sock          the socket of the process, which it inherits from us
//	events-ID.json    what the process says of itself; ID is of this start of it, in the record before there is a process
//	seed.img          what cloud-init reads; values of secrets are here and nowhere else
//	kernel, initramfs what it boots, or firmware: copies, if its process has a user of its own, who sees no images
//	console.log       what the machine writes to its serial port since it was started, and console.log.N-M of the time before, see sal.Log
//	vmm.log           what the process writes
//	snapshots/*       memory and disks
//	work              a snapshot that is not finished
//
// A process is the machine's if its number, its start, the host's boot and the name of its events file, which is among its arguments, are
// those of the record. So one that was started just before a crash is found again, a number that was given away is not mistaken for it,
// and a process of somebody else is left alone.
package cloudhypervisor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the machine driver of a node with cloud-hypervisor. One driver at a time works with a directory.
type Driver struct {
	Dir      string       // required: an absolute path; everything is kept below it
	Images   sal.Images   // required: kernels and initramfs
	Volumes  sal.Volumes  // required: disks
	Networks sal.Networks // required: taps
	// Others are who may have volumes besides, and then no machine gets them; there may be none.
	Others []sal.Users
	// Program is cloud-hypervisor, v53 or newer: a path, or a name that is looked for on PATH. "cloud-hypervisor" if empty.
	Program string
	// Firmware is the file with which machines boot their first disk that have no kernel. Without it there are no such machines.
	Firmware string
	// Accounts are the users that processes run as, each machine's as one of its own. Without it they run as we do.
	Accounts *confine.Accounts
	// Room returns QUOTA_EXCEEDED if bound does not fit into the rest of its project's share of the disk. It may be nil.
	Room func(ctx context.Context, name string, bound sal.Bound) error
	// Now tells the time for the pauses between restarts; time.Now if nil.
	Now func() time.Time
	// Step is called before every single change of the host; tests stop the driver there. It may be nil.
	Step func(name string)

	// reserving is held while room for a snapshot is looked for and recorded.
	reserving sync.Mutex

	claims  sync.Mutex // held while a record with volumes is compared with the others and written
	usable  sync.Once  // guards cgroups
	cgroups *cgroup.Groups
	users   confine.Register
	kvm     string // in place of device, for tests
	mshv    string // and of microsofts

	guestTime time.Duration // in place of letGo and giveUp, for tests
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Users   = (*Driver)(nil)
	_ sal.Logging = (*Driver)(nil)

	_ sal.ImageUsers = (*Driver)(nil)
)

// power is what a machine does, and what it should do.
type power string

const (
	running power = "running"
	paused  power = "paused"
	stopped power = "stopped"
)

// phase tells what a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // there may be anything of the machine, and nothing of it counts
	ready     phase = "ready"     // it is what Power and the rest say, or Keep makes it so
	restoring phase = "restoring" // it has to become what the snapshot Restoring has
	deleting  phase = "deleting"  // as making, and it must go
)

// own is what a record keeps besides the spec.
type own struct {
	Phase     phase           `json:"phase"`
	Power     power           `json:"power"`           // what was asked for last
	Ended     string          `json:"ended,omitempty"` // how the guest ended that was last stopped: see catalog.Machine
	CPUs      int64           `json:"cpus"`
	MemoryMiB int64           `json:"memory_mib"`
	Volumes   []disk          `json:"volumes,omitempty"`
	Sizes     sizes           `json:"sizes,omitempty"`
	Ports     []sal.Port      `json:"ports,omitempty"`
	Taps      map[string]int  `json:"taps,omitempty"`    // the numbers of the taps that the process has, by name
	Process   *process        `json:"process,omitempty"` // nil if there is none
	User      uint32          `json:"user,omitempty"`    // that the process runs as, and that has its files; 0 is ours
	Kept      map[string]kept `json:"kept,omitempty"`    // snapshots by name
	Writing   int64           `json:"writing,omitempty"` // bytes that are reserved for a snapshot that is being written
	Restoring string          `json:"restoring,omitempty"`
	Past      past            `json:"past"`
}

// disk is a volume that a machine has.
type disk struct {
	Volume   writ.Ref `json:"volume"`
	ReadOnly bool     `json:"read_only,omitempty"`
}

// sizes are the bytes that the process knows the disks of volumes to have: it looks only when it gets them.
type sizes map[writ.UID]int64

// Describe names the driver, and says what holds the processes of machines.
func (d *Driver) Describe() writ.NodeDriver {
	detail := fmt.Sprintf("processes run %s, bounded by %s", d.Accounts.About(), d.groups().About())
	return writ.NodeDriver{Module: "machine", Name: "cloudhypervisor", Detail: detail}
}

// Observe looks at a machine: its record, its process, and what that says.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase)}
	now, err := d.seen(ctx, r)
	if err != nil {
		return sal.Observation{}, err
	}
	if r.Own.Phase == ready {
		seen.State = string(now)
	}
	seen.Values = catalog.Values(show(r, now))
	return seen, ctx.Err()
}

// List returns every machine that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do carries out an operation on a machine.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j := d.job(request)
	if request.Operation.Effect == catalog.Remove {
		return j.remove(ctx)
	}
	r, err := d.records().Get(request.Resource)
	if err != nil {
		return sal.Outcome{}, err
	}
	if r, err = j.recovered(ctx, r); err != nil {
		return sal.Outcome{}, err
	}
	if request.Operation.Effect == catalog.Make {
		return j.make(ctx, r)
	}
	return j.use(ctx, r)
}

// job is one operation on one machine.
type job struct {
	*Driver
	sal.Request
	dir string // of the machine
}

func (d *Driver) job(request sal.Request) *job {
	return &job{Driver: d, Request: request, dir: d.dirOf(request.Resource)}
}

// recovered returns the record after finishing what a crash interrupted. A machine that was never finished does not exist.
func (j *job) recovered(ctx context.Context, r *sal.Record[own]) (*sal.Record[own], error) {
	if r == nil {
		return nil, nil
	}
	switch r.Own.Phase {
	case making, deleting:
		return nil, j.clear(ctx, r)
	case restoring:
		return r, j.finishRestore(ctx, r)
	default:
		return r, nil
	}
}

func (j *job) make(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	r, change, err := r.Make(j.Request, sal.Making[own]{
		Create: func() (*sal.Record[own], error) { return j.create(ctx) },
		Update: func(fields []string) error { return j.update(ctx, r, fields) },
	})
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// use carries out Alter and Look operations.
func (j *job) use(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	switch args := j.Args.(type) {
	case *catalog.MachineResize:
		return j.resize(ctx, r, args)
	case *catalog.MachineAttach:
		return j.attach(ctx, r, disk{args.Volume, args.ReadOnly})
	case *catalog.MachineDetach:
		return j.detach(ctx, r, args.Volume)
	case *catalog.Stop:
		return j.stop(ctx, r, time.Duration(args.GraceSeconds)*time.Second)
	case *catalog.LogPart:
		return j.console(ctx, r, args)
	}
	switch j.Operation.Verb {
	case "start":
		return j.start(ctx, r)
	case "pause":
		return j.pause(ctx, r)
	case "resume":
		return j.resume(ctx, r)
	case "snapshot":
		return j.snapshot(ctx, r, j.Args.(*catalog.Snapshot).Snapshot)
	case "restore":
		return j.restore(ctx, r, j.Args.(*catalog.Snapshot).Snapshot)
	case "delete_snapshot":
		return j.deleteSnapshot(ctx, r, j.Args.(*catalog.Snapshot).Snapshot)
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the cloudhypervisor driver cannot do %s", j.Operation.Name())
	}
}

// done counts a change, writes the record and reports.
func (j *job) done(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

func (j *job) outcome(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	now, err := j.seen(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: change, Values: catalog.Values(show(r, now))}, nil
}

// refuse is the error about an operation that does not fit what the machine does.
func (j *job) refuse(now power, hint string) error {
	return writ.Errorf(writ.CodeResourceConflict, "%s is %s", j.Resource, now).WithHint("%s", hint)
}

// show makes the result.
func show(r *sal.Record[own], now power) catalog.Machine {
	m := catalog.Machine{
		Identity:  catalog.Identify(r.Resource, r.UID, false),
		State:     string(now),
		CPUs:      r.Own.CPUs,
		MemoryMiB: r.Own.MemoryMiB,
		DiskGiB:   r.Own.diskGiB(),
	}
	if now == stopped {
		m.Ended = r.Own.Ended
	}
	for _, p := range r.Own.Ports {
		m.Addresses = append(m.Addresses, p.IPv6.Addr().String())
	}
	m.IPv4 = catalog.IPv4Of(sal.IPv4Of(r.Own.Ports))
	if len(r.Own.Ports) > 0 {
		m.Address, m.MAC = m.Addresses[0], r.Own.Ports[0].MAC.String()
	}
	for _, v := range r.Own.Volumes {
		m.Disks = append(m.Disks, v.Volume.Name)
	}
	for name := range r.Own.Kept {
		m.Snapshots = append(m.Snapshots, name)
	}
	slices.Sort(m.Snapshots)
	return m
}

// spec are the arguments that a machine was made with, secrets by name.
func spec(r *sal.Record[own]) *catalog.MachineCreate {
	if args, err := readSpec(r); err == nil {
		return args
	}
	return new(catalog.MachineCreate)
}

func readSpec(r *sal.Record[own]) (*catalog.MachineCreate, error) {
	o, ok := catalog.Lookup(r.Operation)
	if !ok {
		return nil, fmt.Errorf("%s was made by %s, which there is no more", r.Resource, r.Operation)
	}
	args, err := o.Decode(r.Spec)
	if err != nil {
		return nil, err
	}
	return args.(*catalog.MachineCreate), nil
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) machines() string { return filepath.Join(d.Dir, "machines") }

func (d *Driver) dirOf(resource writ.ResourceID) string {
	return filepath.Join(d.machines(), resource.HostName())
}

func (d *Driver) clock() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
