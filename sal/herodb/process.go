package herodb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"writ"
	"writ/internal/confine"
	"writ/internal/sleep"
	"writ/sal"
)

// pid identifies a process across a crash: another process that reuses the PID has a different start time.
type pid struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // kernel ticks since boot
	Boot  string `json:"boot"`  // boot ID of the host
}

// process is the state of a process in /proc.
type process struct {
	pid
	dead     bool     // a zombie: it has ended and was not reaped
	ending   bool     // it has begun to end: it does no work, but occupies its port
	starting bool     // it has no arguments yet
	leads    bool     // it is the leader of its session
	args     []string // nil if it has ended or is ending
}

// children are the processes that this driver started and has not reaped. The zero value is empty.
type children struct {
	mu  sync.Mutex
	all map[pid]bool
}

func (c *children) add(p pid) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[pid]bool{}
	}
	c.all[p] = true
}

// reap reaps an ended process if it is one of the children.
func (c *children) reap(p pid) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[p] {
		delete(c.all, p)
		reap(p.PID)
	}
}

var _ sal.Served = (*Driver)(nil)

// Process implements sal.Served.
func (d *Driver) Process(_ context.Context, resource writ.ResourceID) (sal.Process, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil || r.Own.Phase == making || r.Own.Phase == deleting {
		return nil, err
	}
	p, err := jobOn(d, resource).process(r.Own)
	if err != nil || p == (pid{}) {
		return nil, err
	}
	return hold(p)
}

// process returns the process that serves a database, recorded or not, or the zero value. An engine's child that writes
// a snapshot has the same arguments and can outlive the engine, but serves no clients. process skips it, because the
// child is not the leader of its session (see spawn).
func (j *job) process(o own) (pid, error) {
	return j.find(o, func(p process) bool { return p.leads })
}

// find returns the recorded process if it lives. Otherwise it returns another process of the database that qualifies
// accepts, or the zero value.
func (j *job) find(o own, qualifies func(process) bool) (pid, error) {
	if j.lives(o.Process, o) {
		return o.Process, nil
	}
	all, err := processesWith(j.dir + "/")
	if err != nil {
		return pid{}, sal.HostError("list the processes", err)
	}
	for _, p := range all {
		if qualifies(p) && j.ours(p, o) {
			return p.pid, nil
		}
	}
	return pid{}, nil
}

// lives reports whether a process exists and still belongs to the database. A process that is ending still lives,
// because it occupies its port. A process that does not seem to belong to the database is checked again, because
// confine.RunsAs cannot read the root directory of a process that has begun to end.
func (j *job) lives(p pid, o own) bool {
	if p == (pid{}) {
		return false
	}
	for range 2 {
		now, err := look(p.PID)
		switch {
		case err != nil || now.pid != p:
			return false
		case now.dead:
			j.children.reap(p)
			return false
		case now.ending || now.starting || j.ours(now, o):
			return true
		}
	}
	return false
}

// ours reports whether a process serves the database: its arguments contain the name of the engine and a path of the
// database, and it runs as the user in the record. Any process can forge arguments, but not the user. If o.Engine is
// empty, any engine and any user match; Fence uses this to end the process.
func (j *job) ours(p process, o own) bool {
	serves := func(argument string) bool { return filepath.Base(argument) == o.Engine }
	if o.Engine == "" {
		serves = isEngine
	}
	return slices.ContainsFunc(p.args, serves) &&
		slices.ContainsFunc(p.args, func(a string) bool { return strings.HasPrefix(a, j.dir+"/") }) &&
		(o.Engine == "" || confine.RunsAs(p.PID, o.User))
}

// end ends every process of a database and its children: with the signal of the engine first, if grace is not zero,
// then with SIGKILL.
func (j *job) end(ctx context.Context, o own, grace time.Duration) error {
	e, ok := engineOf(o.Engine)
	if !ok || e.ends == 0 {
		e.ends = syscall.SIGTERM
	}
	for {
		p, err := j.find(o, func(process) bool { return true })
		if err != nil || p == (pid{}) {
			return err
		}
		j.step("end the process")
		if grace > 0 {
			if err := signal(p, e.ends); err != nil {
				return sal.HostError(fmt.Sprintf("end process %d", p.PID), err)
			}
			if j.gone(ctx, p, o, grace) {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := signal(p, syscall.SIGKILL); err != nil {
			return sal.HostError(fmt.Sprintf("kill process %d", p.PID), err)
		}
		if !j.gone(ctx, p, o, clearTime) {
			return errors.Join(ctx.Err(), writ.Errorf(writ.CodeDriverFailed,
				"process %d of %s does not end even after SIGKILL", p.PID, j.Resource).
				WithHint("the kernel keeps it, most likely because a disk does not respond"))
		}
	}
}

// gone waits at most the duration `most` for the end of a process and reports whether it has ended.
func (j *job) gone(ctx context.Context, p pid, o own, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for wait := minPoll; j.lives(p, o); wait = min(2*wait, maxPoll) {
		if sleep.For(ctx, wait) != nil {
			return !j.lives(p, o)
		}
	}
	return true
}
