package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/runner/journal"
	"writ/sal"
	"writ/sal/catalog"
)

// work is one job in the runner's hands.
type work struct {
	job    *writ.Job
	digest writ.Digest // of the job's record
	taken  time.Time

	ctx    context.Context // ends when the run is cancelled or the runner must stop, with the reason as its cause
	cancel context.CancelCauseFunc

	operation *catalog.Operation // nil if the node does not know it
	args      any
	mask      mask       // of the secrets in args
	origin    sal.Origin // of what it copies, nil if that is on this host
	driver    sal.Driver
	about     writ.NodeDriver // what the driver says of itself
	lock      *lock
	release   func() // gives back its slot, or its slot of a transfer; nil if it has none

	said  string    // by its driver, last; guarded by the desk
	begun bool      // it does not wait any more; guarded by the desk
	stuck time.Time // since then its driver ignores that its time is over; zero if it does not
}

// repeatable reports whether the job may be carried out again when nobody knows whether it was.
func (w *work) repeatable() bool {
	return w.job.Idempotent || w.operation != nil && w.operation.Repeat == catalog.Safe
}

// resource is what the job acts on, zero if its operation names none.
func (w *work) resource() writ.ResourceID {
	if w.operation == nil || !w.operation.Named() {
		return writ.ResourceID{}
	}
	return writ.ResourceID{Project: w.job.Project, Kind: w.operation.Kind, Name: w.job.Name}
}

// desk holds the jobs that the runner works on, and the runs that were cancelled.
type desk struct {
	mu        sync.Mutex
	active    map[writ.JobKey]*work
	cancelled map[writ.RunID]journal.Cancel
}

// enter registers a job, whose context ends with parent. It returns nil if the same job is there already.
func (d *desk) enter(parent context.Context, job *writ.Job, digest writ.Digest, now time.Time) *work {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active[job.JobKey] != nil {
		return nil
	}
	w := &work{job: job, digest: digest, taken: now}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	if c, ok := d.cancelled[job.Run]; ok && w.taken.Before(c.Until) && job.Resumes <= c.Resumes {
		w.cancel(errCancelled)
	}
	d.active[job.JobKey] = w
	return w
}

// leave ends a job's time on the desk.
func (d *desk) leave(w *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.cancel(nil)
	delete(d.active, w.job.JobKey)
}

// cancel ends the jobs of runs and refuses later ones until a time.
func (d *desk) cancel(runs map[writ.RunID]journal.Cancel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for run, c := range runs {
		d.cancelled[run] = later(d.cancelled[run], c)
	}
	for key, w := range d.active {
		if c, ok := runs[key.Run]; ok && w.job.Resumes <= c.Resumes {
			w.cancel(errCancelled)
		}
	}
}

// giveUp ends jobs that nobody waits for any more. One that comes later is told of when a beat names it.
func (d *desk) giveUp(keys []writ.JobKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if w := d.active[key]; w != nil {
			w.cancel(errGivenUp)
		}
	}
}

// later is what two cancels of a run say together.
func later(a, b journal.Cancel) journal.Cancel {
	if a.Until.After(b.Until) {
		b.Until = a.Until
	}
	b.Resumes = max(a.Resumes, b.Resumes)
	return b
}

// forget drops cancelled runs whose time is over.
func (d *desk) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.cancelled, func(_ writ.RunID, c journal.Cancel) bool { return c.Until.Before(now) })
}

// begin notes that a job is carried out now.
func (d *desk) begin(w *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.begun = true
}

// count returns how many jobs wait before they begin, since when the oldest of them does, how many are carried out, and how many of these by
// drivers that ignore that their time is over.
func (d *desk) count() (waiting int, since time.Time, running, stuck int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.active {
		switch {
		case !w.stuck.IsZero():
			stuck++
		case w.begun:
			running++
		default:
			if waiting++; waiting == 1 || w.taken.Before(since) {
				since = w.taken
			}
		}
	}
	return waiting, since, running, stuck
}

// markStuck notes that the job's handler gave up waiting for its driver.
func (d *desk) markStuck(w *work, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.stuck = now
}

// What a beat has room for.
const (
	maxProgress     = 64  // jobs that drivers said something of; the others are reported when these have ended
	maxProgressText = 256 // bytes
)

// setProgress stores what a driver said of its job.
func (d *desk) setProgress(w *work, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.said = clip(text, maxProgressText)
}

// say notes what a job waits for before it begins, "" if for nothing any more.
func (d *desk) say(key writ.JobKey, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.active[key]; w != nil {
		w.said = clip(text, maxProgressText)
	}
}

// progress is what drivers said last of the active jobs, or what these wait for, in order.
func (d *desk) progress() []writ.Progress {
	all := listed(d, func(w *work) bool { return w.said != "" }, func(w *work) writ.Progress { return writ.Progress{JobKey: w.job.JobKey, Text: w.said} })
	return all[:min(len(all), maxProgress)]
}

// stuck returns the jobs whose drivers ignore that their time is over, in order.
func (d *desk) stuck() []writ.Stuck {
	return listed(d, func(w *work) bool { return !w.stuck.IsZero() }, func(w *work) writ.Stuck {
		return writ.Stuck{
			JobKey: w.job.JobKey, Operation: w.job.Operation, Project: w.job.Project, Name: w.job.Name, Since: w.stuck.UTC().Truncate(time.Millisecond),
		}
	})
}

// keys returns the keys of the active jobs, in order.
func (d *desk) keys() []writ.JobKey {
	return listed(d, func(*work) bool { return true }, func(w *work) writ.JobKey { return w.job.JobKey })
}

// listed maps the active jobs that are wanted, in the order of their keys.
func listed[T any](d *desk, want func(*work) bool, view func(*work) T) []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	var wanted []*work
	for _, w := range d.active {
		if want(w) {
			wanted = append(wanted, w)
		}
	}
	slices.SortFunc(wanted, func(a, b *work) int {
		return cmp.Or(cmp.Compare(a.job.Run, b.job.Run), cmp.Compare(a.job.Seq, b.job.Seq), cmp.Compare(a.job.Attempt, b.job.Attempt))
	})
	var all []T
	for _, w := range wanted {
		all = append(all, view(w))
	}
	return all
}
