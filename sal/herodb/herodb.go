// Package herodb is the driver of databases that speak the Redis protocol: a process for each, of the first engine that a script takes and
// the host has. It knows engines, their files and processes; it must not know what is in a database, nor where its disk and its network
// come from: sal.Trees and sal.Networks hand them over.
//
// On disk, below Dir: records/ as package sal writes them; databases/NAME/ with the configuration, the secret, the log and a link to the
// data, where NAME is writ.ResourceID.HostName; engines/ with a copy of each program that serves a database. The data is in a tree of its
// own, NAME, so that a backup is a snapshot of that and has neither configuration nor secret.
//
// A process belongs to a database if it has the program's name and a path of databases/NAME/ among its arguments. It is started in a
// session of its own and outlives the runner; the next one finds it by that, whether the record knew of it or not.
package herodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the driver of a node's databases.
type Driver struct {
	Dir   string    // required: an absolute path; everything but the data is kept below it
	Trees sal.Trees // required: where the data is
	// Networks has the networks that databases listen on. Without it none can be given.
	Networks sal.Networks
	// Overlay says where databases without a network listen. Without it that is loopback.
	Overlay sal.Overlay
	// FirstPort and LastPort bound the TCP ports of databases without a network. They are DefaultFirstPort and DefaultLastPort if zero.
	FirstPort, LastPort int
	// Engines are the names of those that serve new databases, best first: the first one that a script takes and the host has. If there are
	// none named, all serve that keep their secret. herodb and hero_redis know no other way than to show it to every user of the host, among
	// the arguments of their process, and listen on more addresses than they should: they serve only if they are named, and even then get no
	// password of a script. A database that exists keeps its engine.
	Engines []string
	// Accounts are the users that engines run as, each database's as one of its own. Without it they run as we do.
	Accounts *confine.Accounts
	// Look finds a program. It is exec.LookPath if nil.
	Look func(name string) (path string, err error)
	// Step is called before every single change of the host; tests stop the driver there. It may be nil.
	Step func(name string)

	mu       sync.Mutex                 // guards what follows, the choice of ports, and engines/
	versions map[string]string          // of programs, by path, size and time
	children map[pid]bool               // processes that it started and that nobody has let go
	starts   map[writ.ResourceID]starts // of processes that ended by themselves
	usable   sync.Once                  // guards cgroups
	cgroups  *cgroup.Groups
	users    confine.Register
}

// Where databases without a network listen if nobody says otherwise: ports that systems give to no outgoing connection.
const (
	DefaultFirstPort = 20379
	DefaultLastPort  = 24378
)

// networkPort is that of databases with a network, which have an address of their own.
const networkPort = 6379

// own is what a record keeps besides the spec.
type own struct {
	Phase     phase  `json:"phase"`
	Engine    string `json:"engine"`
	Version   string `json:"version"` // of the engine
	Host      string `json:"host"`    // the address on which it listens
	Port      int64  `json:"port"`
	Device    string `json:"device,omitempty"` // its interface in a namespace of its own, "" if it has none
	Tree      string `json:"tree"`             // the directory of its data
	Persist   bool   `json:"persist"`
	SizeGiB   int64  `json:"size_gib"`
	MemoryMiB int64  `json:"memory_mib"`
	Secret    int64  `json:"secret"`           // its version
	Given     bool   `json:"given,omitempty"`  // the secret is the password of the spec
	Backup    string `json:"backup,omitempty"` // in the phase restoring: which
	User      uint32 `json:"user,omitempty"`   // that the process runs as, and that has the data; 0 is ours
	Process   pid    `json:"process,omitzero"` // that serves it, as far as the driver came to write it down
	Fenced    bool   `json:"fenced,omitempty"` // it is served no more: see sal.Fencing
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // there may be anything, and nothing of it counts
	ready     phase = "ready"     // it is served as the record says, unless its process ended
	changing  phase = "changing"  // its process may not have heard of what the record says
	replacing phase = "replacing" // its process may be of another engine than the record says
	restoring phase = "restoring" // its data may be from before or from the backup; it will be the backup's
	deleting  phase = "deleting"  // as making, and it must go
)

// What states are called.
const (
	running = "running"
	stopped = "stopped"
)

// Describe names the driver, the engines that it found and what bounds their memory.
func (d *Driver) Describe() writ.NodeDriver {
	found := d.found(context.Background())
	return writ.NodeDriver{Module: "herodb", Name: "engines", Detail: d.detail(found), Engines: found}
}

// Observe looks at a database.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	v, err := d.database(ctx, r)
	if err != nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: v.State, Values: catalog.Values(v)}
	if r.Own.Phase == making || r.Own.Phase == deleting || r.Own.Phase == restoring {
		seen.State = string(r.Own.Phase)
	}
	return seen, nil
}

// List returns every database that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do carries out an operation on a database.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j := d.jobOn(request.Resource)
	j.Request = request
	if request.Operation.Effect == catalog.Remove {
		return j.remove()
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

// job is one operation on one database, or the care for it.
type job struct {
	*Driver
	sal.Request
	dir string // of the database, databases/NAME
}

func (d *Driver) jobOn(resource writ.ResourceID) *job {
	return &job{Driver: d, Request: sal.Request{Resource: resource}, dir: filepath.Join(d.Dir, "databases", resource.HostName())}
}

// recovered returns the database's record after finishing what a crash interrupted. A database that was never finished does not exist.
func (j *job) recovered(ctx context.Context, r *sal.Record[own]) (*sal.Record[own], error) {
	if r == nil {
		return nil, nil
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, j.clear(r)
	case restoring:
		return r, j.putBack(ctx, r)
	case changing, replacing:
		return r, j.apply(ctx, r)
	default:
		return r, nil
	}
}

// remove deletes a database, whatever state it is in.
func (j *job) remove() (sal.Outcome, error) {
	gone := sal.Outcome{Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false))}
	r, err := j.records().GetToRemove(j.Request)
	if err != nil || r == nil {
		return gone, err
	}
	if r.Own.Phase != making && r.Own.Phase != deleting {
		if err := r.Owned(j.Request); err != nil {
			return sal.Outcome{}, err
		}
		gone.Change = writ.ChangeDeleted
	}
	return gone, j.clear(r)
}

// clearTime is how long it may take to take everything away. It does not end with the operation: what is half gone is of no use.
const clearTime = 2 * time.Minute

// clear takes away whatever there is of a database, its record last.
func (j *job) clear(r *sal.Record[own]) error {
	ctx, cancel := context.WithTimeout(context.Background(), clearTime)
	defer cancel()
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := j.end(ctx, r.Own, 0); err != nil {
		return err
	}
	if j.Networks != nil {
		j.step("release the network")
		if err := j.Networks.Release(ctx, owner(r)); err != nil {
			return fmt.Errorf("release the network: %w", err)
		}
	}
	if err := j.unfence(ctx, r.Own); err != nil {
		return err
	}
	j.step("remove the data")
	if err := j.Trees.Remove(ctx, j.tree()); err != nil {
		return fmt.Errorf("remove the data: %w", err)
	}
	j.step("remove the directory")
	if err := os.RemoveAll(j.dir); err != nil {
		return sal.HostError("remove "+j.dir, err)
	}
	if err := j.forgetCopies(j.Resource); err != nil {
		return err
	}
	j.forgive(j.Resource)
	if err := j.records().Remove(j.Resource); err != nil {
		return err
	}
	j.users.Forget(j.Resource.HostName())
	return nil
}

// tree is the name of the data.
func (j *job) tree() string { return j.Resource.HostName() }

// room is how much the data may occupy. It counts for the project.
func (j *job) room(gib int64) sal.Bound {
	return sal.Bound{Bytes: gib << 30, Project: j.Resource.Project}
}

func owner(r *sal.Record[own]) sal.Owner { return sal.Owner{Resource: r.Resource, UID: r.UID} }

// in is the path of a file of the database.
func (j *job) in(name string) string { return filepath.Join(j.dir, name) }

// write makes a file of the database that only the driver's user may read, as a whole or not at all.
func (j *job) write(name, text string) error {
	if err := sal.MakeDir(j.dir); err != nil {
		return err
	}
	j.step("write " + name)
	f, err := os.OpenFile(j.in(name+".tmp"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(j.in(name+".tmp"), j.in(name)); err != nil {
		return err
	}
	return sal.SyncDir(j.dir)
}

func (j *job) outcome(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	v, err := j.database(ctx, r)
	return sal.Outcome{Change: change, Values: catalog.Values(v)}, err
}

// database is the result of operations.
func (d *Driver) database(ctx context.Context, r *sal.Record[own]) (catalog.HeroDB, error) {
	o := r.Own
	v := catalog.HeroDB{
		Identity:      catalog.Identify(r.Resource, r.UID, false),
		State:         stopped,
		Address:       net.JoinHostPort(o.Host, strconv.FormatInt(o.Port, 10)),
		Host:          o.Host,
		Port:          o.Port,
		Engine:        o.Engine,
		Version:       o.Version,
		SecretVersion: o.Secret,
	}
	p, err := d.jobOn(r.Resource).process(o)
	if err != nil {
		return v, err
	}
	if p != (pid{}) {
		v.State = running
	}
	v.Backups, err = d.Trees.Snapshots(ctx, r.Resource.HostName())
	return v, err
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}
