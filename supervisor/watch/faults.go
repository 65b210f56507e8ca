package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"writ/supervisor/journal"
)

// queueAwayAfter is the time after which an unavailable queue is reported. A restart of the queue takes less time.
const queueAwayAfter = 3 * time.Second

// Faults holds the faults that stop the work of the datacenter. They are reported to coordinators and logged.
type Faults struct {
	log *slog.Logger

	mu      sync.Mutex
	journal error
	queue   error
	since   time.Time // first check of the present fault of the queue; without a fault, the last check
}

// check updates the faults of journal and queue. queue is the current error of the queue, nil if it is available. If a
// write to the journal has failed, check probes the journal with a new write.
func (f *Faults) check(ctx context.Context, j *journal.Journal, queue error, now time.Time) {
	was := j.Fault()
	if was != nil && j.Probe(ctx) == nil {
		was = nil
	}
	if was == nil {
		was = j.Check(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.journal == nil && was != nil:
		f.log.Error("write the journal: new work is refused, and reports of nodes wait", "err", was)
	case f.journal != nil && was == nil:
		f.log.Info("the journal can be written again")
	}
	f.journal = was
	if f.queue == nil {
		f.since = now
	}
	f.queue = queue
}

// Works returns the fault of the journal, "" if it can be written, and whether the queue is available.
func (f *Faults) Works() (journal string, queue bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.journal != nil {
		journal = f.journal.Error()
	}
	return journal, f.queue == nil
}

// Text describes the current fault for coordinators, "" without a fault.
func (f *Faults) Text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.journal != nil:
		return "its journal cannot be written: " + f.journal.Error()
	case f.queue != nil && time.Since(f.since) >= queueAwayAfter:
		return "its queue is unreachable: " + f.queue.Error()
	}
	return ""
}
