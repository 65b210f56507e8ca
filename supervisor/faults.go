package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"writ/supervisor/journal"
)

// queueAwayAfter is how long the queue may be away before people are told: it may be started again in less.
const queueAwayAfter = 3 * time.Second

// faults are what keeps the datacenter from going on, as its coordinators and its log are told.
type faults struct {
	log *slog.Logger

	mu      sync.Mutex
	journal error
	queue   error
	since   time.Time // the queue is away
}

// look notes how journal and queue are. A journal that could not be written is tried.
func (f *faults) look(ctx context.Context, j *journal.Journal, queue error, now time.Time) {
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

// works reports why the journal cannot be written, "" if it can, and whether the queue answers.
func (f *faults) works() (journal string, queue bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.journal != nil {
		journal = f.journal.Error()
	}
	return journal, f.queue == nil
}

// text says what keeps the datacenter from going on, "" if nothing does.
func (f *faults) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.journal != nil:
		return "its journal cannot be written: " + f.journal.Error()
	case f.queue != nil && time.Since(f.since) >= queueAwayAfter:
		return "its queue is away: " + f.queue.Error()
	}
	return ""
}
