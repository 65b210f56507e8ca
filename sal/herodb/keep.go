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

// keepTime is how long Keep waits for a process that it started. One that has much to load answers at a later look.
const keepTime = 10 * time.Second

// Keep holds a database against its record: a process that ended is started again, sooner or later, depending on how often it does.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	j := d.jobOn(resource)
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Own.Phase == making {
		return nil, j.clear(r) // whoever asked for it asks again, or gave up
	}
	if r.Own.Fenced {
		return nil, d.Fence(ctx, resource) // as far as a crash came between
	}
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return nil, err
	}
	drift, err := j.revive(ctx, r)
	if err != nil || ctx.Err() != nil {
		return drift, errors.Join(err, ctx.Err())
	}
	if err := j.trimLog(); err != nil {
		return drift, err
	}
	return append(drift, j.differs(ctx, r)...), nil
}

// revive makes a process serve the database, if it is time for that.
func (j *job) revive(ctx context.Context, r *sal.Record[own]) ([]sal.Drift, error) {
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
			p, drift = pid{}, []sal.Drift{{What: "the network namespace of the database was another one than its process was in", Mended: true}}
		}
	}
	what := "the process of the database had ended"
	if p == (pid{}) && j.starved() {
		what = fmt.Sprintf("the process of the database was killed by the kernel, as it took more than its %d MiB of memory", r.Own.MemoryMiB)
	}
	if p == (pid{}) && drift == nil {
		if wait := j.due(r.Resource); wait > 0 {
			return []sal.Drift{{What: fmt.Sprintf("%s again; it is started in %s", what, wait.Round(time.Second))}}, nil
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
			err = errors.New("its process does not answer; it may have much to load")
		}
		return []sal.Drift{{What: what + " or does not serve: " + err.Error()}}, nil
	}
	return drift, nil
}

// lostNetwork reports whether a process is in another namespace than the one that is there now, which was made anew then.
func (j *job) lostNetwork(ctx context.Context, r *sal.Record[own], p pid) (bool, error) {
	path, _, err := j.namespace(ctx, r)
	if err != nil {
		return false, err
	}
	same, err := sameNamespace(path, namespaceOf(p))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it has ended meanwhile
	}
	if err != nil {
		return false, sal.HostError("compare namespaces", err)
	}
	return !same, nil
}

// differs says what is not as it was asked for and nobody mends by himself.
func (j *job) differs(ctx context.Context, r *sal.Record[own]) []sal.Drift {
	var drift []sal.Drift
	p, err := j.program(ctx, r.Own.Engine)
	switch {
	case err != nil && !errors.Is(err, exec.ErrNotFound):
	case err != nil:
		drift = append(drift, sal.Drift{What: fmt.Sprintf("the node has no %s any more; the database is served by the copy of %s that was kept", r.Own.Engine, r.Own.Version)})
	case p.version != r.Own.Version:
		drift = append(drift, sal.Drift{What: fmt.Sprintf("the node has %s %s now, and the database stays with %s until herodb.create asks for another version",
			r.Own.Engine, p.version, r.Own.Version)})
	}
	in, err := j.instance(r)
	if err != nil || in.process == (pid{}) || in.engine.live.reload == nil {
		return drift
	}
	c, err := in.dial(ctx)
	if err != nil {
		return drift // revive has said it
	}
	defer c.close()
	if _, err := c.ask(ctx, "PING"); refused(err, "MISCONF") {
		drift = append(drift, sal.Drift{What: errFull.Error() + "; size_gib can be larger"})
	}
	answer, err := c.ask(ctx, "CONFIG", "GET", "maxmemory")
	pair, ok := answer.([]any)
	if want := strconv.FormatInt(maxMemory(r.Own.MemoryMiB), 10); err == nil && ok && len(pair) == 2 && pair[1] != want {
		mended := j.refresh(ctx, in, reload) == nil
		drift = append(drift, sal.Drift{What: fmt.Sprintf("its data could take %v bytes of memory instead of %s", pair[1], want), Mended: mended})
	}
	return drift
}

// starts counts how often Keep started a process that had ended by itself.
type starts struct {
	count int
	last  time.Time
}

// How long Keep leaves a database alone whose process ends again and again: nothing, then twice as long each time. Who lives for longer than
// steady begins anew.
const (
	firstWait = 30 * time.Second
	mostWait  = 10 * time.Minute
	steady    = 20 * time.Minute
)

// wait is how long after the last start the next one may be.
func (s starts) wait() time.Duration {
	if s.count < 2 {
		return 0
	}
	return min(firstWait<<min(s.count-2, 10), mostWait)
}

// due returns how long a process is still not to be started.
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

// forgive forgets what was counted.
func (d *Driver) forgive(resource writ.ResourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starts, resource)
}

// hostName is the form of names that databases have on hosts.
var hostName = regexp.MustCompile(`^h[a-z2-7]{10}$`)

// Orphans describes processes, directories, trees, groups and namespaces of databases that have no record.
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
		return nil, sal.HostError("look through the processes", err)
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

// hostOf says for which database a process serves, or did: it has the name of an engine and a path of the database among its arguments.
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

// Usage returns what a database has, and what it has moved since its process started.
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
	if traffic, ok := d.Networks.(sal.Traffic); ok && r.Own.Device != "" { // it counts on, whether a process serves or not
		u.Received, u.Sent, err = traffic.Traffic(ctx, owner(r))
		return u, err
	}
	if !serves {
		return u, nil
	}
	if r.Own.Device != "" {
		u.Received, u.Sent, err = moved(in.process, r.Own.Device)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the process or its interface went this moment
		}
		return u, err
	}
	if in.engine.live.reload == nil {
		return u, nil
	}
	// One that does not answer is an error: counters of zero would say that counting began anew, and count all again the next time.
	c, err := in.dial(ctx)
	if err != nil {
		return sal.Usage{}, sal.HostError("ask "+resource.String()+" what it has moved", err)
	}
	defer c.close()
	stats, err := c.info(ctx, "stats")
	if err != nil {
		return sal.Usage{}, sal.HostError("ask "+resource.String()+" what it has moved", err)
	}
	var errR, errS error
	u.Received, errR = strconv.ParseInt(stats["total_net_input_bytes"], 10, 64)
	u.Sent, errS = strconv.ParseInt(stats["total_net_output_bytes"], 10, 64)
	return u, errors.Join(errR, errS)
}
