// Package simulated has a driver for every module that creates resources. The driver creates no real resource: it
// stores records on disk, and marks every answer as simulated. Like a real driver, it takes time, reports the states of
// resources, and rejects invalid requests. It appends its effects to a file, so that a test can determine whether an
// operation took effect exactly once.
//
// Names cause failures. A resource whose name begins with "fail-" cannot be created or used (INJECTED_FINAL, which is
// not retried). A name that begins with "flaky-N-" fails N times (INJECTED, which is retried) and works from then on. A
// name that begins with "slow-N-" takes N seconds longer for every operation, at any speed. A name that begins with
// "stuck-N-" takes N seconds longer for changes and ignores its deadline and cancellation. Resources with these names
// can be deleted.
package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"

	"writ"
	"writ/internal/opening"
	"writ/sal"
	"writ/sal/catalog"
)

// Modules lists the modules that can be simulated: the modules that create resources.
var Modules = []string{"image", "volume", "network", "machine", "container", "herodb"}

// Config configures a simulated driver.
type Config struct {
	Module string // required, one of Modules
	Dir    string // required: holds records and effects, in a folder per module
	// Images is a directory for a small stand-in file per image, which a real volume driver can copy. Only module image
	// uses it; "" means no files.
	Images string
	Open   opening.List // ports of the node that containers may publish
	// Devices are the names of the devices that containers may have; any device if it is empty.
	Devices []string
	// Fetched provides the images if a real driver fetches them; nil if they are simulated in Dir.
	Fetched sal.Images
	Speed   float64 // factor for realistic durations: 1 is realistic, 0 is immediate
	Detail  string  // the reason for the simulation, for listings
	// Step is called before each change to Dir. Tests use it to stop the driver at that point. May be nil.
	Step func(name string)
}

// Driver simulates one module.
type Driver struct {
	config  Config
	module  module
	step    func(name string)
	store   store
	logs    logs
	backups backups
}

// Open returns the driver of a module with its existing records.
func Open(c Config) (*Driver, error) {
	m, ok := modules[c.Module]
	if !ok {
		return nil, fmt.Errorf("simulate %q: the only modules are %v", c.Module, Modules)
	}
	dir := filepath.Join(c.Dir, c.Module)
	if c.Step == nil {
		c.Step = func(string) {}
	}
	d := &Driver{
		config:  c,
		module:  m,
		step:    c.Step,
		logs:    logs{dir: filepath.Join(dir, "logs"), step: c.Step},
		backups: backups{dir: filepath.Join(dir, "backups"), step: c.Step},
	}
	d.store.records = sal.Records[own]{Dir: filepath.Join(dir, "records"), Step: c.Step}
	d.store.effects.path = filepath.Join(dir, effectsFile)
	if err := sal.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", c.Module, err)
	}
	if err := d.store.effects.repair(); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", c.Module, err)
	}
	return d, nil
}

// Describe returns the name and module of the driver, marked as simulated.
func (d *Driver) Describe() writ.NodeDriver {
	about := writ.NodeDriver{Module: d.config.Module, Name: "simulated", Simulated: true, Detail: d.config.Detail}
	switch d.config.Module {
	case "network":
		about.Opens = d.config.Open.Texts()
	case "container":
		about.Devices = d.config.Devices
	}
	return about
}

// Effects returns every effect of this module so far, oldest first.
func (d *Driver) Effects() ([]Effect, error) { return d.store.effects.read() }

// Observe returns the state in a record.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.store.get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	return sal.Observation{Exists: true, UID: r.UID, State: r.Own.State.Power, Values: d.values(r)}, ctx.Err()
}

// List returns the resources that have records.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.store.list()
}

// Do simulates an operation.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	ctx = ignoringDeadline(ctx, request)
	if err := inject(&d.store.effects, request); err != nil {
		return sal.Outcome{}, err
	}
	r, err := d.store.getFor(request)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Effect {
	case catalog.Make:
		return d.make(ctx, r, request)
	case catalog.Remove:
		return d.remove(ctx, r, request)
	case catalog.Run:
		return runProgram(ctx, d, r, request)
	default:
		return d.use(ctx, r, request)
	}
}

func (d *Driver) make(ctx context.Context, r *sal.Record[own], request sal.Request) (sal.Outcome, error) {
	change, fields, err := r.Decide(request)
	if err != nil {
		return sal.Outcome{}, err
	}
	next := r
	if change != writ.ChangeUnchanged {
		if err := d.checkFormats(ctx, request); err != nil {
			return sal.Outcome{}, err
		}
		if args, ok := request.Args.(*catalog.ContainerCreate); ok {
			if err := checkDevices(d, args.Devices); err != nil {
				return sal.Outcome{}, err
			}
		}
	}
	defer choosing.drop(node(d.config.Dir), request.Resource)
	defer using.drop(node(d.config.Dir), request.Resource)
	switch change {
	case writ.ChangeCreated:
		next = sal.NewRecord[own](request)
		err = d.module.make(d, request, &next.Own.State)
	case writ.ChangeUpdated:
		next = clone(r)
		next.Spec = catalog.Values(request.Args)
		err = d.module.update(request, filesReplace(r, request, fields), &next.Own.State)
	}
	if err == nil && change != writ.ChangeUnchanged {
		err = claimPorts(d, request, &next.Own.State)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	if change != writ.ChangeUnchanged {
		if err := d.carryOut(ctx, r, next, request); err != nil {
			return sal.Outcome{}, err
		}
	}
	return sal.Outcome{Change: change, Values: d.values(next)}, nil
}

func (d *Driver) remove(ctx context.Context, r *sal.Record[own], request sal.Request) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged,
		Values: catalog.Values(catalog.Identify(request.Resource, request.UID, true)),
	}
	if r == nil {
		return gone, d.store.records.Remove(request.Resource) // an unfinished creation may have left a file
	}
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	gone.Change = writ.ChangeDeleted
	return gone, d.carryOut(ctx, r, nil, request)
}

// use executes Alter and Look operations.
func (d *Driver) use(ctx context.Context, r *sal.Record[own], request sal.Request) (sal.Outcome, error) {
	if err := r.Owned(request); err != nil {
		return sal.Outcome{}, err
	}
	next := clone(r)
	defer using.drop(node(d.config.Dir), request.Resource)
	extra, err := d.module.use(d, request, &next.Own.State)
	if err != nil {
		return sal.Outcome{}, err
	}
	done := sal.Outcome{Change: writ.ChangeUnchanged}
	if request.Operation.Repeat == catalog.Once || !reflect.DeepEqual(r.Own.State, next.Own.State) {
		done.Change = writ.ChangeUpdated
		if err := d.carryOut(ctx, r, next, request); err != nil {
			return sal.Outcome{}, err
		}
	}
	if request.Operation.Effect == catalog.Look {
		done.Change = writ.ChangeNone
	}
	done.Values = d.values(next)
	maps.Copy(done.Values, extra)
	return done, nil
}

// carryOut changes the resource from r to next; a nil record means that the resource does not exist. It writes the
// pending operation, takes time, counts the effect, and writes the final record.
func (d *Driver) carryOut(ctx context.Context, r, next *sal.Record[own], request sal.Request) error {
	about := next // the record that holds the pending operation
	if r != nil {
		about = r
	}
	about = clone(about)
	about.Own.Pending = &pending{Operation: request.Operation.Name(), Gone: next == nil}
	if next != nil {
		about.Own.Pending.State, about.Own.Pending.Spec = next.Own.State, next.Spec
	}
	if err := d.store.records.Put(about); err != nil {
		return err
	}
	if err := takeTime(ctx, request, d.config.Speed); err != nil {
		return err
	}
	if d.module.touch != nil {
		if err := d.module.touch(d, request); err != nil {
			return sal.HostError("write a stand-in", err)
		}
	}
	d.step("effect")
	if err := d.store.effects.add(newEffect(request, about.Generation+1)); err != nil {
		return sal.HostError("count the effect", err)
	}
	if next == nil {
		return d.store.records.Remove(request.Resource)
	}
	next.Generation = about.Generation + 1
	return d.store.records.Put(next)
}

// values returns the result fields that describe the resource.
func (d *Driver) values(r *sal.Record[own]) map[string]any {
	return catalog.Values(d.module.show(d, r))
}

// clone returns a deep copy of a record.
func clone(r *sal.Record[own]) *sal.Record[own] {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // all values of a record have a JSON form
	}
	c := new(sal.Record[own])
	if err := json.Unmarshal(text, c); err != nil {
		panic(err)
	}
	return c
}

// identity returns the common fields of results.
func identity(r *sal.Record[own]) catalog.Identity {
	return catalog.Identify(r.Resource, r.UID, true)
}
