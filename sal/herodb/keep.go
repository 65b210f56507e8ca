package herodb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/sal"
)

// keepTime limits how long Keep waits for a process that it started. A process that loads much data answers in a later
// run.
const keepTime = 10 * time.Second

// Keep compares a database with its record and repairs it. It restarts a process that ended; the delay grows with the
// number of restarts.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	j := d.jobOn(resource)
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Own.Phase == making {
		return nil, j.clear(r) // the request is retried or was abandoned
	}
	if r.Own.Fenced {
		return nil, d.Fence(ctx, resource) // a crash may have interrupted it
	}
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return nil, err
	}
	drift, err := j.restart(ctx, r)
	if err != nil || ctx.Err() != nil {
		return drift, errors.Join(err, ctx.Err())
	}
	if err := j.trimLog(); err != nil {
		return drift, err
	}
	return append(drift, j.differs(ctx, r)...), nil
}

// restart restarts the process of the database, unless its delay is not over.
func (j *job) restart(ctx context.Context, r *sal.Record[own]) ([]sal.Drift, error) {
	p, err := j.process(r.Own)
	if err != nil {
		return nil, err
	}
	var drift []sal.Drift
	if p != (pid{}) && r.Own.Device != "" {
		lost, err := j.lostNetwork(ctx, r, p)
		if err != nil {
			return nil, err
		}
		if lost {
			if err := j.end(ctx, r.Own, grace); err != nil {
				return nil, err
			}
			p, drift = pid{}, []sal.Drift{{
				What: "the process of the database was in an outdated network namespace", Mended: true,
			}}
		}
	}
	what := "the process of the database had ended"
	if p == (pid{}) && j.starved() {
		what = fmt.Sprintf("the kernel killed the process of the database at its limit of %d MiB of memory",
			r.Own.MemoryMiB)
	}
	if p == (pid{}) && drift == nil {
		if wait := j.due(r.Resource); wait > 0 {
			return []sal.Drift{{What: fmt.Sprintf("%s again; the next start is in %s", what, wait.Round(time.Second))}},
				nil
		}
	}
	short, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	if p == (pid{}) {
		j.started(r.Resource)
		if drift == nil {
			drift = []sal.Drift{{What: what, Mended: true}}
		}
	}
	if _, err := j.serve(short, r); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("its process does not answer; it may be loading much data")
		}
		return []sal.Drift{{What: what + " or does not serve: " + err.Error()}}, nil
	}
	return drift, nil
}

// lostNetwork reports whether a process is in another namespace than the one at the path of its network, which was
// recreated.
func (j *job) lostNetwork(ctx context.Context, r *sal.Record[own], p pid) (bool, error) {
	path, _, err := j.namespace(ctx, r)
	if err != nil {
		return false, err
	}
	same, err := sameNamespace(path, namespaceOf(p))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the process has ended meanwhile
	}
	if err != nil {
		return false, sal.HostError("compare namespaces", err)
	}
	return !same, nil
}

// differs returns drift that only a person can repair, such as another engine version. It repairs a changed memory
// limit.
func (j *job) differs(ctx context.Context, r *sal.Record[own]) []sal.Drift {
	var drift []sal.Drift
	p, err := j.program(ctx, r.Own.Engine)
	switch {
	case err != nil && !errors.Is(err, exec.ErrNotFound):
	case err != nil:
		drift = append(drift,
			sal.Drift{
				What: fmt.Sprintf("the node has no %s any more; the database is served by the copy of %s that was kept",
					r.Own.Engine, r.Own.Version),
			})
	case p.version != r.Own.Version:
		drift = append(drift,
			sal.Drift{What: fmt.Sprintf("the node has %s %s now, and the database stays with %s until herodb.create asks for another version",
				r.Own.Engine, p.version, r.Own.Version)})
	}
	in, err := j.instance(r)
	if err != nil || in.process == (pid{}) || in.engine.live.reload == nil {
		return drift
	}
	c, err := in.dial(ctx)
	if err != nil {
		return drift // reported by revive
	}
	defer c.close()
	if _, err := c.ask(ctx, "PING"); refused(err, "MISCONF") {
		drift = append(drift, sal.Drift{What: errFull.Error() + "; size_gib can be larger"})
	}
	answer, err := c.ask(ctx, "CONFIG", "GET", "maxmemory")
	pair, ok := answer.([]any)
	if want := strconv.FormatInt(maxMemory(r.Own.MemoryMiB), 10); err == nil && ok && len(pair) == 2 &&
		pair[1] != want {
		mended := j.refresh(ctx, in, reload) == nil
		drift = append(drift, sal.Drift{
			What: fmt.Sprintf("the memory limit of its data was %v bytes instead of %s", pair[1], want), Mended: mended,
		})
	}
	return drift
}

// starts counts the restarts by Keep of a process that ended by itself.
type starts struct {
	count int
	last  time.Time
}

// Delays before Keep restarts a process that ends repeatedly: none at first, then doubling from firstWait to mostWait.
// A process that ran longer than steady resets the count.
const (
	firstWait = 30 * time.Second
	mostWait  = 10 * time.Minute
	steady    = 20 * time.Minute
)

// wait returns the delay between the last start and the next one.
func (s starts) wait() time.Duration {
	if s.count < 2 {
		return 0
	}
	return min(firstWait<<min(s.count-2, 10), mostWait)
}

// due returns the remaining delay before the next start.
func (d *Driver) due(resource writ.ResourceID) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.starts[resource]
	return s.wait() - time.Since(s.last)
}

// started counts a start.
func (d *Driver) started(resource writ.ResourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.starts == nil {
		d.starts = map[writ.ResourceID]starts{}
	}
	s := d.starts[resource]
	if time.Since(s.last) > steady {
		s.count = 0
	}
	d.starts[resource] = starts{s.count + 1, time.Now()}
}

// resetStarts resets the count of a database.
func (d *Driver) resetStarts(resource writ.ResourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starts, resource)
}

// hostName matches the host names of databases.
var hostName = regexp.MustCompile(`^h[a-z2-7]{10}$`)

// Orphans returns processes, directories, trees, cgroups and namespaces of databases without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return nil, err
	}
	known := func(name string) bool {
		return slices.ContainsFunc(records, func(r *sal.Record[own]) bool { return r.Resource.HostName() == name }) ||
			slices.ContainsFunc(damaged, func(r sal.Damaged) bool { return r.HostName == name })
	}
	all := sal.DamagedOrphans(damaged)
	add := func(kind, host, name, remedy string) {
		if hostName.MatchString(host) && !known(host) {
			all = append(all, sal.Orphan{Kind: kind, Name: name, Of: host, Remedy: remedy})
		}
	}
	running, err := processesWith(d.Dir + "/")
	if err != nil {
		return nil, sal.HostError("list the processes", err)
	}
	for _, p := range running {
		if host, ok := d.hostOf(p); ok {
			add("process", host, strconv.Itoa(p.PID), sal.Command("kill", strconv.Itoa(p.PID)))
		}
	}
	dir := filepath.Join(d.Dir, "databases")
	dirs, err := sal.FileNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range dirs {
		path := filepath.Join(dir, name)
		add("directory", name, path, sal.Command("rm", "-r", path))
	}
	groups, err := d.groups().All()
	if err != nil {
		return nil, sal.HostError("list the groups of databases", err)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		add("cgroup", name, groups[name], sal.Command("rmdir", groups[name]))
	}
	trees, err := d.Trees.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, tree := range trees {
		add("tree", tree, tree, d.Trees.Remedy(tree))
	}
	if d.Networks == nil {
		return all, nil
	}
	owners, err := d.Networks.Owners(ctx)
	for _, o := range owners {
		if o.Resource.Kind == writ.KindHeroDB {
			add("namespace", o.Resource.HostName(), o.Resource.String(), "")
		}
	}
	return all, err
}

// hostOf returns the host name of the database that a process serves or served: it has the name of an engine and a path
// of the database among its arguments.
func (d *Driver) hostOf(p process) (host string, ok bool) {
	if !slices.ContainsFunc(p.args, isEngine) {
		return "", false
	}
	for _, a := range p.args {
		if rest, ok := strings.CutPrefix(a, filepath.Join(d.Dir, "databases")+"/"); ok {
			host, _, _ = strings.Cut(rest, "/")
			return host, true
		}
	}
	return "", false
}

// Usage returns the resources of a database, and its traffic since the start of its process.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil || r.Own.Phase == making || r.Own.Phase == deleting {
		return sal.Usage{}, err
	}
	u := sal.Usage{DiskGiB: r.Own.SizeGiB}
	j := d.jobOn(resource)
	in, err := j.instance(r)
	if err != nil {
		return sal.Usage{}, err
	}
	serves := in.process != (pid{})
	if serves {
		u.MemoryMiB = r.Own.MemoryMiB
	}
	if traffic, ok := d.Networks.(sal.Traffic); ok && r.Own.Device != "" { // counts independently of the process
		u.Received, u.Sent, err = traffic.Traffic(ctx, owner(r))
		return u, err
	}
	if !serves {
		return u, nil
	}
	if r.Own.Device != "" {
		u.Received, u.Sent, err = moved(in.process, r.Own.Device)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the process or its interface has just disappeared
		}
		return u, err
	}
	if in.engine.live.reload == nil {
		return u, nil
	}
	// A process that does not answer is an error: zero would look like a counter reset, and the next reading would
	// count everything twice.
	c, err := in.dial(ctx)
	if err != nil {
		return sal.Usage{}, sal.HostError("read the counters of "+resource.String(), err)
	}
	defer c.close()
	stats, err := c.info(ctx, "stats")
	if err != nil {
		return sal.Usage{}, sal.HostError("read the counters of "+resource.String(), err)
	}
	var errR, errS error
	u.Received, errR = strconv.ParseInt(stats["total_net_input_bytes"], 10, 64)
	u.Sent, errS = strconv.ParseInt(stats["total_net_output_bytes"], 10, 64)
	return u, errors.Join(errR, errS)
}
