package watch

import (
	"sync/atomic"
	"time"

	"writ"
	"writ/supervisor/journal"
)

// waitsEvery is the interval at which waits are read. Each read costs one query per node.
const waitsEvery = 5 * time.Second

// Figures holds the figures of one scan for metrics. Its times are of the wall clock.
type Figures struct {
	At      time.Time              // of the scan; zero before the first scan
	Calls   map[writ.CallState]int // open calls
	queued  map[writ.NodeID]time.Time
	running time.Time // start of the oldest running call
	waits
}

// waits holds the figures that are read less often than each scan.
type waits struct {
	planned map[writ.NodeID]time.Time // start of the oldest wait by node; for "", Tx.OldestWait
	behind  map[string]int64          // number of events that each known coordinator has not confirmed
	events  int64                     // number of events that any other coordinator has not confirmed
}

// Waiting returns the longest wait of a call without a node, for its present reason.
func (f *Figures) Waiting(now time.Time) time.Duration { return age(now, f.planned[""]) }

// Oldest returns the age of the oldest call in each state.
func (f *Figures) Oldest(now time.Time) map[writ.CallState]time.Duration {
	oldest := map[writ.CallState]time.Duration{
		writ.CallPlanned: 0, writ.CallQueued: 0, writ.CallRunning: age(now, f.running),
	}
	for node, since := range f.planned {
		if node != "" {
			oldest[writ.CallPlanned] = max(oldest[writ.CallPlanned], age(now, since))
		}
	}
	for _, since := range f.queued {
		oldest[writ.CallQueued] = max(oldest[writ.CallQueued], age(now, since))
	}
	return oldest
}

// ages returns the ages of the oldest planned and the oldest queued call of a node.
func (f *Figures) ages(node writ.NodeID, now time.Time) (planned, queued time.Duration) {
	return age(now, f.planned[node]), age(now, f.queued[node])
}

// Unconfirmed returns the number of events that the coordinator at an address has not confirmed.
func (f *Figures) Unconfirmed(coordinator string) int64 {
	if n, known := f.behind[coordinator]; known {
		return n
	}
	return f.events
}

// figures holds the figures of the last scan.
type figures struct {
	last   atomic.Pointer[Figures]
	waited time.Time // last read of the waits, by the monotonic clock
}

// get returns the figures of the last scan, or the zero value before the first scan.
func (f *figures) get() *Figures {
	if last := f.last.Load(); last != nil {
		return last
	}
	return new(Figures)
}

// readWaits reads the waits if the last read is at least waitsEvery ago. Otherwise it returns nil. `at` is the time of
// the scan by the monotonic clock.
func (f *figures) readWaits(
	tx *journal.Tx, loads map[writ.NodeID]journal.Load, at time.Time,
) (read *waits, err error) {
	if !f.waited.IsZero() && at.Sub(f.waited) < waitsEvery {
		return nil, nil
	}
	read = &waits{planned: make(map[writ.NodeID]time.Time)}
	if read.planned[""], err = tx.OldestWait(); err != nil {
		return nil, err
	}
	for node, load := range loads {
		if node == "" || load.Planned == 0 {
			continue
		}
		if read.planned[node], err = tx.OldestPlaced(node); err != nil {
			return nil, err
		}
	}
	if read.behind, read.events, err = tx.Unconfirmed(); err != nil {
		return nil, err
	}
	f.waited = at
	return read, nil
}

// set stores the figures of a scan. If the scan did not read the waits, set keeps the last waits.
func (f *figures) set(found facts, now time.Time) {
	next := &Figures{
		At: now, Calls: map[writ.CallState]int{writ.CallPlanned: 0, writ.CallQueued: 0, writ.CallRunning: 0},
		queued: make(map[writ.NodeID]time.Time), waits: f.get().waits,
	}
	if found.waits != nil {
		next.waits = *found.waits
	}
	for _, l := range found.loads {
		next.Calls[writ.CallPlanned] += l.Planned
		next.Calls[writ.CallQueued] += l.Queued
		next.Calls[writ.CallRunning] += l.Running
	}
	for _, c := range found.sent {
		if c.State == writ.CallQueued {
			next.queued[c.Node] = older(next.queued[c.Node], c.Queued)
		} else {
			next.running = older(next.running, c.Started)
		}
	}
	f.last.Store(next)
}

// older returns the earlier of two times and ignores a zero time.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// age returns the time from `since` to `now`: 0 if `since` is zero, or if the clock was set back after it.
func age(now, since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0)
}
