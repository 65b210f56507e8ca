package herodb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"time"

	"writ"
	"writ/sal"
)

// keepTime limits how long Keep waits for a process that it started. A process that loads much data may answer only
// during a later Keep.
const keepTime = 10 * time.Second

// pauses are the pauses before Keep restarts a process that ended.
var pauses = sal.Pauses{Free: 2, First: 30 * time.Second, Longest: 10 * time.Minute, Steady: 20 * time.Minute}

// Keep compares a database and its tree with its record and repairs them. It restarts a process that ended; the delay
// grows with the number of restarts.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	j := jobOn(d, resource)
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Own.Phase == making {
		return nil, j.clear(r) // the request is retried or was abandoned
	}
	if r.Own.Fenced {
		return nil, d.Fence(ctx, resource) // a crash may have interrupted Fence
	}
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return nil, err
	}
	drift, err := j.restart(ctx, r)
	if err != nil || ctx.Err() != nil {
		return drift, errors.Join(err, ctx.Err())
	}
	if _, missing := os.Stat(r.Own.Tree); missing == nil { // otherwise restart has reported it
		kept, err := j.Trees.Keep(ctx, j.tree(), j.room(r.Own.SizeGiB))
		drift = append(drift, kept...)
		if err != nil {
			return drift, err
		}
	}
	if err := j.trimLog(); err != nil {
		return drift, err
	}
	return append(drift, j.differs(ctx, r)...), nil
}

// restart starts a process for a database without one, unless the delay before the restart is not over. It replaces a
// process in an outdated network namespace.
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
		if wait := time.Until(j.restarts.Due(r.Resource.HostName(), pauses)); wait > 0 {
			return []sal.Drift{{What: fmt.Sprintf("%s again; the next start is in %s", what, wait.Round(time.Second))}},
				nil
		}
	}
	short, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	if p == (pid{}) && drift == nil {
		drift = []sal.Drift{{What: what, Mended: true}}
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

// lostNetwork reports whether the network namespace of the database was recreated, so that the process is in an
// outdated namespace.
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

// differs reports other drift. It repairs a changed memory limit. Only a person can repair the rest, such as a
// different engine version on the host.
func (j *job) differs(ctx context.Context, r *sal.Record[own]) []sal.Drift {
	var drift []sal.Drift
	p, err := j.offer().program(ctx, r.Own.Engine)
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
		return drift // reported by restart
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
