// Package herodb is the driver of databases that speak the Redis protocol. Each database has its own process. The
// process runs an engine: the first one in the script's list that is installed on the host. The package manages
// engines, their files and their processes. It does not interpret the content of databases. Disks and networks come
// from sal.Trees and sal.Networks.
//
// Files below Dir: records/, in the format of package sal; databases/NAME/ with the configuration, the secret, the log
// and a link to the data, where NAME is writ.ResourceID.HostName; engines/ with a copy of each program that serves a
// database. The data is in its own tree, NAME. A backup is a snapshot of the tree and contains neither configuration
// nor secret.
//
// A process belongs to a database if it runs as the user in the record, and its arguments contain the program's name
// and a path below databases/NAME/. The process has its own session and survives the runner. The next runner finds the
// process by its arguments, even if the record does not have its PID.
package herodb

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/internal/cgroup"
	"writ/internal/confine"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/needs"
)

// Driver is the driver of a node's databases.
type Driver struct {
	Dir   string    // required: absolute path of the directory for all files of the driver except data
	Trees sal.Trees // required: the directories for data
	// Networks are the networks for databases. If nil, a database with a network is refused.
	Networks sal.Networks
	// Overlay returns the address for databases without a network. If nil, such databases listen on loopback.
	Overlay sal.Overlay
	// FirstPort and LastPort are the range of TCP ports for databases without a network. Zero means DefaultFirstPort
	// and DefaultLastPort.
	FirstPort, LastPort int
	// Engines are the names of the engines for new databases, in order of preference. If empty, all engines that protect
	// their secret are used. herodb and hero_redis do not protect it: they accept the secret only as a command-line
	// argument, which every user of the host can read, and listen on more addresses than necessary. They are used only if
	// Engines names them, and never for a database whose script sets the password. Existing databases keep their engine.
	Engines []string
	// Accounts are the users for engines; each database gets its own. If nil, engines run as the user of the driver.
	Accounts *confine.Accounts
	// Look finds a program; nil means exec.LookPath.
	Look func(name string) (path string, err error)
	// Step is called before each change to the host. Tests use it to stop the driver at that point. May be nil.
	Step func(name string)

	versions needs.Versions
	children children
	restarts sal.Restarts
	users    confine.Register
	usable   sync.Once // guards cgroups
	cgroups  *cgroup.Groups
	placing  sync.Mutex // held from the choice of a port until the port is recorded
	copying  sync.Mutex // guards engines/
}

// own holds the driver's part of a record, beside the spec.
type own struct {
	Phase     phase  `json:"phase"`
	Engine    string `json:"engine"`
	Version   string `json:"version"` // version of the engine
	Host      string `json:"host"`    // listen address
	Port      int64  `json:"port"`
	Device    string `json:"device,omitempty"` // interface in the network namespace; "" without a network
	Tree      string `json:"tree"`             // directory of the data
	Persist   bool   `json:"persist"`
	SizeGiB   int64  `json:"size_gib"`
	MemoryMiB int64  `json:"memory_mib"`
	Secret    int64  `json:"secret"`           // version of the secret
	Given     bool   `json:"given,omitempty"`  // the secret is the password of the spec
	Backup    string `json:"backup,omitempty"` // name of the backup in phase restoring
	User      uint32 `json:"user,omitempty"`   // owner of the process and the data; 0 means the user of the driver
	Process   pid    `json:"process,omitzero"` // last recorded process
	Fenced    bool   `json:"fenced,omitempty"` // no process may serve it; see sal.Fencing
}

// phase marks an operation that a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // partly created; after a crash, its parts are discarded
	ready     phase = "ready"     // served with the settings of the record, unless its process has ended
	changing  phase = "changing"  // the process may not have applied the record yet
	replacing phase = "replacing" // the process may still run the previous version of the engine
	restoring phase = "restoring" // the backup may not have replaced the data yet
	deleting  phase = "deleting"  // partly deleted; after a crash, the rest is deleted
)

// States that operations report.
const (
	running = "running"
	stopped = "stopped"
)

// Describe returns the name of the driver, the engines of the host, and the memory limits of databases.
func (d *Driver) Describe() writ.NodeDriver {
	found := d.offer().installed(context.Background())
	detail := "no engine: apt-get install -y redis-server"
	if serve, _ := about(found); len(serve) > 0 {
		detail = fmt.Sprintf("%s; memory is bounded by %s; they run %s", strings.Join(serve, ", "), bounded(d.groups()),
			d.Accounts.About())
	}
	return writ.NodeDriver{Module: "herodb", Name: "engines", Detail: detail, Engines: found}
}

// Observe returns the state of a database.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	v, err := jobOn(d, resource).database(ctx, r)
	if err != nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: v.State, Values: catalog.Values(v)}
	if r.Own.Phase == making || r.Own.Phase == deleting || r.Own.Phase == restoring {
		seen.State = string(r.Own.Phase)
	}
	return seen, nil
}

// List returns every database that has a record, including databases whose creation or deletion is unfinished.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do executes an operation on a database.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j := jobOn(d, request.Resource)
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

// job is one operation on one database, or one run of Keep.
type job struct {
	*Driver
	sal.Request
	dir string // databases/NAME
}

func jobOn(d *Driver, resource writ.ResourceID) *job {
	return &job{Driver: d, Request: sal.Request{Resource: resource}, dir: filepath.Join(d.Dir, "databases",
		resource.HostName())}
}

// recovered finishes an operation that a crash interrupted and returns the record. It returns nil if the creation or
// deletion of the database was interrupted; an interrupted deletion is completed.
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

// remove deletes a database in any state.
func (j *job) remove() (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
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

// clearTime limits the removal of a database. The removal does not end with the context of the operation, because a
// partly removed database is useless.
const clearTime = 2 * time.Minute

// clear ends the process of a database, then removes its network namespace, cgroup, data and files, and finally its
// record.
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
	if err := j.removeCgroup(ctx, r.Own); err != nil {
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
	if err := j.copies().forget(j.records(), j.Resource); err != nil {
		return err
	}
	j.restarts.Drop(j.Resource.HostName())
	if err := j.records().Remove(j.Resource); err != nil {
		return err
	}
	j.users.Forget(j.Resource.HostName())
	return nil
}

// tree returns the name of the data's tree.
func (j *job) tree() string { return j.Resource.HostName() }

// room returns the disk limit for the data of a database with a size of gib GiB. The limit counts towards the disk
// share of the project.
func (j *job) room(gib int64) sal.Bound {
	return sal.Bound{Bytes: gib << 30, Project: j.Resource.Project}
}

func owner(r *sal.Record[own]) sal.Owner { return sal.Owner{Resource: r.Resource, UID: r.UID} }

// in returns the path of a file of the database.
func (j *job) in(name string) string { return filepath.Join(j.dir, name) }

// write atomically writes a file of the database that only the driver's user may read.
func (j *job) write(name, text string) error {
	j.step("write " + name)
	return sal.WriteFile(j.in(name), 0o600, []byte(text))
}

func (j *job) outcome(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	v, err := j.database(ctx, r)
	return sal.Outcome{Change: change, Values: catalog.Values(v)}, err
}

// database returns the database as operations report it.
func (j *job) database(ctx context.Context, r *sal.Record[own]) (catalog.HeroDB, error) {
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
	p, err := j.process(o)
	if err != nil {
		return v, err
	}
	if p != (pid{}) {
		v.State = running
	}
	v.Backups, err = j.Trees.Snapshots(ctx, j.tree())
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
