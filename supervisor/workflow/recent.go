package workflow

import (
	"container/list"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// Limits of the runs in memory between two of their steps. Other runs are read again from the journal. Consecutive
// steps of a run follow each other closely, so a few runs suffice, and runs that wait for long are soon evicted.
const (
	maxRecent      = 512
	maxRecentBytes = 32 << 20
)

// recentRun is a run with its calls, equal to their state in the journal.
type recentRun struct {
	run   *journal.Run
	calls []*journal.Call
}

// size estimates the memory of a run.
func (r *recentRun) size() int {
	const inMemory, call = 4, 1 << 10 // memory per encoded byte, and per call without values
	return call*(1+len(r.calls)) + inMemory*r.run.Bytes
}

// recent caches runs after their last step. Only steps change a run, one at a time: a step removes the run from the
// cache, and puts it back only after all its changes are in the journal.
type recent struct {
	mu    sync.Mutex
	runs  map[writ.RunID]*list.Element // of *recentRun
	order *list.List                   // most recently used first
	bytes int
}

func newRecent() *recent { return &recent{runs: make(map[writ.RunID]*list.Element), order: list.New()} }

// take removes and returns a run, nil if it is not here.
func (r *recent) take(id writ.RunID) *recentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.runs[id]
	if e == nil {
		return nil
	}
	return r.remove(e)
}

// projectOf returns the project of a run, "" if the run is not here.
func (r *recent) projectOf(id writ.RunID) writ.ProjectID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.runs[id]; e != nil {
		return e.Value.(*recentRun).run.Project
	}
	return ""
}

// put adds a run.
func (r *recent) put(run *recentRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[run.run.ID] = r.order.PushFront(run)
	r.bytes += run.size()
	for r.order.Len() > maxRecent || r.bytes > maxRecentBytes {
		r.remove(r.order.Back())
	}
}

func (r *recent) remove(e *list.Element) *recentRun {
	run := r.order.Remove(e).(*recentRun)
	delete(r.runs, run.run.ID)
	r.bytes -= run.size()
	return run
}
