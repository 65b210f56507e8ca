// Package cloudhypervisor is the driver of virtual machines. It runs one cloud-hypervisor process per machine: it
// starts the process, identifies it, calls its API and ends it, and it provides the disks, taps, cloud-init disk and
// console of the machine. It does not depend on the implementations of images, volumes and networks.
//
// Files below Dir: records/, in the format of package sal, and machines/NAME, where NAME is writ.ResourceID.HostName:
//
//	api.sock          the API socket; the process inherits it from the driver
//	events-ID.json    events of the process; ID identifies one start and is recorded before the process exists
//	seed.img          the cloud-init disk; the only place with values of secrets
//	kernel, initramfs copies of boot files (or firmware) for a process with its own user, which cannot read images
//	console.log       serial output since the last start; console.log.N-M hold earlier output; see logfile.Log
//	vmm.log           output of the process
//	snapshots/*       memory and disks
//	work              an unfinished snapshot
//
// A process belongs to a machine if its PID, its start time, the boot ID of the host and the name of its events file
// (one of its arguments) match the record. A process that was started just before a crash is therefore found again, a
// reused PID is not mistaken for it, and processes of other programs are left alone.
package cloudhypervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the machine driver of a node with cloud-hypervisor. Only one driver at a time may use a directory.
type Driver struct {
	Inventory

	Images   sal.Images   // required: kernels and initramfs
	Volumes  sal.Volumes  // required: disks
	Networks sal.Networks // required: taps
	// Others are the other drivers that may use volumes. A machine cannot attach a volume that one of these drivers uses.
	// May be empty.
	Others []sal.Users
	// Program is cloud-hypervisor v53 or newer: a path, or a name to look up on PATH. Empty means "cloud-hypervisor".
	Program string
	// Firmware is the firmware file for machines without a kernel, which boot from their first disk. If it is empty,
	// such machines are refused.
	Firmware string
	// Accounts are the users for processes; each machine gets its own. If nil, processes run as the user of the driver.
	Accounts *confine.Accounts
	// Room returns QUOTA_EXCEEDED if bound exceeds the remaining disk share of bound.Project. May be nil.
	Room func(ctx context.Context, name string, bound sal.Bound) error
	// Now is the clock for the pauses between restarts; nil means time.Now.
	Now func() time.Time

	// reserving is locked while space for a snapshot is checked and recorded.
	reserving sync.Mutex

	claims sync.Mutex // locked while volumes are checked for other users and the record is written
	users  confine.Register
	kvm    string // replaces device in tests
	mshv   string // replaces mshvDevice in tests

	guestTime time.Duration // replaces releaseLimit and cpuReleaseLimit in tests
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Users   = (*Driver)(nil)
	_ sal.Logging = (*Driver)(nil)
	_ sal.Fencing = (*Driver)(nil)
	_ sal.Served  = (*Driver)(nil)

	_ sal.ImageUsers = (*Driver)(nil)
)

// power is the actual or requested power state of a machine.
type power string

const (
	running power = "running"
	paused  power = "paused"
	stopped power = "stopped"
)

// phase marks an operation that a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // partly created; after a crash, its parts are discarded
	ready     phase = "ready"     // complete; Keep makes it match Power and the other fields again
	restoring phase = "restoring" // being restored to the snapshot named by Restoring
	deleting  phase = "deleting"  // partly deleted; after a crash, the rest is deleted
)

// own holds the driver's part of a record, beside the spec.
type own struct {
	Phase     phase          `json:"phase"`
	Power     power          `json:"power"`           // last requested state
	Ended     string         `json:"ended,omitempty"` // how the guest ended at the last stop; see catalog.Machine
	CPUs      int64          `json:"cpus"`
	MemoryMiB int64          `json:"memory_mib"`
	Volumes   []disk         `json:"volumes,omitempty"`
	Sizes     sizes          `json:"sizes,omitempty"`
	Ports     []sal.Port     `json:"ports,omitempty"`
	Taps      map[string]int `json:"taps,omitempty"`    // interface indexes of the taps of the process, by name
	Process   *process       `json:"process,omitempty"` // nil if there is no process
	// user ID of the process and owner of its files; 0 means the user of the driver
	User      uint32          `json:"user,omitempty"`
	Kept      map[string]kept `json:"kept,omitempty"`    // snapshots by name
	Writing   int64           `json:"writing,omitempty"` // bytes reserved for the snapshot in progress
	Restoring string          `json:"restoring,omitempty"`
	Past      past            `json:"past"`
}

// disk is a volume attached to a machine.
type disk struct {
	Volume   writ.Ref `json:"volume"`
	ReadOnly bool     `json:"read_only,omitempty"`
}

// sizes holds, by volume, the disk size in bytes that the process uses. The process reads the size of the file only
// when it opens the disk.
type sizes map[writ.UID]int64

// Describe returns the name of the driver and how it confines the processes of machines.
func (d *Driver) Describe() writ.NodeDriver {
	detail := fmt.Sprintf("processes run %s, bounded by %s", d.Accounts.About(), d.groups().About())
	return writ.NodeDriver{Module: "machine", Name: "cloudhypervisor", Detail: detail}
}

// Do executes an operation on a machine.
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

// Fence implements sal.Fencing. If a restore was interrupted, Fence restores the disks and does not start the machine.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID, Progress: func(string) {}})
	if r.Own.Phase == restoring {
		r.Own.Power = stopped
	}
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return err
	}
	_, err = j.stop(ctx, r, sal.FenceGrace)
	return err
}

// job is one operation on one machine.
type job struct {
	*Driver
	sal.Request
	dir string // directory of the machine
}

func (d *Driver) job(request sal.Request) *job {
	return &job{Driver: d, Request: request, dir: d.dirOf(request.Resource)}
}

// recovered finishes an operation that a crash interrupted and returns the record. If the creation or deletion of the
// machine was interrupted, it removes the machine and returns nil.
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

// use executes Alter and Look operations.
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
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the cloudhypervisor driver cannot do %s",
			j.Operation.Name())
	}
}

// updated increments the generation, writes the record and returns the outcome.
func (j *job) updated(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) outcome(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	now, err := powerOf(ctx, &j.Inventory, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	return sal.Outcome{Change: change, Values: catalog.Values(show(r, now))}, nil
}

// refuse returns the error for an operation that does not fit the power state of the machine.
func (j *job) refuse(now power, hint string) error {
	return writ.Errorf(writ.CodeResourceConflict, "%s is %s", j.Resource, now).WithHint("%s", hint)
}

// show returns the machine as operations report it.
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

// spec returns the arguments of machine.create from the record, or empty arguments if they are invalid. They contain
// the names of secrets, not the values.
func spec(r *sal.Record[own]) *catalog.MachineCreate {
	if args, err := readSpec(r); err == nil {
		return args
	}
	return new(catalog.MachineCreate)
}

func readSpec(r *sal.Record[own]) (*catalog.MachineCreate, error) {
	o, ok := catalog.Lookup(r.Operation)
	if !ok {
		return nil, fmt.Errorf("%s was created by the unknown operation %s", r.Resource, r.Operation)
	}
	args, err := o.Decode(r.Spec)
	if err != nil {
		return nil, err
	}
	return args.(*catalog.MachineCreate), nil
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
