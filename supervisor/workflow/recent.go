package workflow

import (
	"container/list"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// Bounds of the runs that are kept in memory between two of their steps; the others are read again from the journal. A run that has many
// steps in a row has them one after the other, so that few runs are enough, and runs that wait for long are soon pushed out.
const (
	maxRecent      = 512
	maxRecentBytes = 32 << 20
)

// recentRun is a run with its calls as they are in the journal.
type recentRun struct {
	run   *journal.Run
	calls []*journal.Call
}

// size estimates the memory of a run.
func (r *recentRun) size() int {
	const inMemory, call = 4, 1 << 10 // how much more than its encoding a value takes, and a call without values
	return call*(1+len(r.calls)) + inMemory*r.run.Bytes
}

// recent keeps runs after their last step. Only steps change a run, one at a time: a step removes the run from here, and
// returns it only if the journal has all its changes.
type recent struct {
	mu    sync.Mutex
	runs  map[writ.RunID]*list.Element // of *recentRun
	order *list.List                   // the last one used first
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
