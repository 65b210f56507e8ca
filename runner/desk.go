package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/runner/hosted"
	"writ/runner/journal"
	"writ/sal"
	"writ/sal/catalog"
)

// work is one job in progress.
type work struct {
	job    *writ.Job
	digest writ.Digest // digest of the job's record
	taken  time.Time

	ctx    context.Context // ends when the run is cancelled or the runner must stop; the cause is the reason
	cancel context.CancelCauseFunc

	operation *catalog.Operation // nil if the operation is unknown
	args      any
	mask      mask       // masks the secrets in args
	origin    sal.Origin // node to copy from; nil if no other node is the source
	driver    sal.Driver
	about     writ.NodeDriver // the driver's description of itself
	lock      *hosted.Lock
	release   func() // returns the job's slot or transfer slot; nil if it holds no slot

	said  string    // last progress text; guarded by the desk
	begun bool      // the driver was called; guarded by the desk
	stuck time.Time // when the driver began to ignore the job's deadline, or zero
}

// repeatable reports whether the job may be carried out again when the outcome of an earlier execution is unknown.
func (w *work) repeatable() bool {
	return w.job.Idempotent || w.operation != nil && w.operation.Repeat == catalog.Safe
}

// resumable reports whether the driver continues the job if an earlier execution was interrupted.
func (w *work) resumable() bool {
	return !w.repeatable() && w.operation != nil && w.operation.Repeat == catalog.Resume
}

// resource returns the resource that the job acts on, or zero for an operation without a resource.
func (w *work) resource() writ.ResourceID {
	if w.operation == nil || !w.operation.Named() {
		return writ.ResourceID{}
	}
	return writ.ResourceID{Project: w.job.Project, Kind: w.operation.Kind, Name: w.job.Name}
}

// desk holds the jobs in progress and the cancelled runs.
type desk struct {
	mu        sync.Mutex
	active    map[writ.JobKey]*work
	cancelled map[writ.RunID]journal.Cancel
}

// enter registers a job, whose context ends with parent. It returns nil if the job is registered already.
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

// leave removes a job from the desk.
func (d *desk) leave(w *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.cancel(nil)
	delete(d.active, w.job.JobKey)
}

// cancel cancels the jobs of runs, including jobs that arrive before Cancel.Until. It does not cancel a job that was
// sent after a later resume of its run.
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

// giveUp cancels jobs that the supervisor no longer waits for. A given-up job that arrives later appears in a beat, and
// the supervisor then gives it up again.
func (d *desk) giveUp(keys []writ.JobKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if w := d.active[key]; w != nil {
			w.cancel(errGivenUp)
		}
	}
}

// later merges two cancels of a run: the later Until and the higher Resumes.
func later(a, b journal.Cancel) journal.Cancel {
	if a.Until.After(b.Until) {
		b.Until = a.Until
	}
	b.Resumes = max(a.Resumes, b.Resumes)
	return b
}

// forget removes cancels whose Until is over.
func (d *desk) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.cancelled, func(_ writ.RunID, c journal.Cancel) bool { return c.Until.Before(now) })
}

// begin marks a job as started.
func (d *desk) begin(w *work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.begun = true
}

// count returns the numbers of waiting jobs, of running jobs, and of jobs whose drivers ignore their deadline (stuck).
// since is the arrival time of the oldest waiting job.
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

// markStuck marks a job whose handler stopped waiting for its driver.
func (d *desk) markStuck(w *work, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.stuck = now
}

// Limits of progress in a beat.
const (
	maxProgress     = 64  // jobs whose progress text is reported, lowest keys first
	maxProgressText = 256 // bytes
)

// say stores a progress text of a job's driver, or the reason why the job waits before it starts; "" clears it.
func (d *desk) say(key writ.JobKey, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.active[key]; w != nil {
		w.said = clip.OneLine(text, maxProgressText)
	}
}

// progress returns the last progress text of each active job, or the reason why it waits, ordered by key.
func (d *desk) progress() []writ.Progress {
	all := listed(d, func(w *work) bool { return w.said != "" },
		func(w *work) writ.Progress { return writ.Progress{JobKey: w.job.JobKey, Text: w.said} })
	return all[:min(len(all), maxProgress)]
}

// stuck returns the jobs whose drivers ignore their deadline, ordered by key.
func (d *desk) stuck() []writ.Stuck {
	return listed(d, func(w *work) bool { return !w.stuck.IsZero() }, func(w *work) writ.Stuck {
		return writ.Stuck{
			JobKey: w.job.JobKey, Operation: w.job.Operation, Project: w.job.Project, Name: w.job.Name,
			Since: w.stuck.UTC().Truncate(time.Millisecond),
		}
	})
}

// keys returns the keys of the active jobs in order.
func (d *desk) keys() []writ.JobKey {
	return listed(d, func(*work) bool { return true }, func(w *work) writ.JobKey { return w.job.JobKey })
}

// listed maps the active jobs that `want` accepts, ordered by key.
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
		return cmp.Or(cmp.Compare(a.job.Run, b.job.Run), cmp.Compare(a.job.Seq, b.job.Seq),
			cmp.Compare(a.job.Attempt, b.job.Attempt))
	})
	var all []T
	for _, w := range wanted {
		all = append(all, view(w))
	}
	return all
}
