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

// recentRun is a run as it is in the journal.
type recentRun struct {
	run   *journal.Run
	calls []*journal.Call
}

// size is what the run takes in memory, about.
func (r *recentRun) size() int {
	const inMemory, call = 4, 1 << 10 // how much more than its encoding a value takes, and a call without values
	return call*(1+len(r.calls)) + inMemory*r.run.Bytes
}

// recent keeps runs as the journal has them after their last step. Nothing but a step changes a run or its calls, and a run has one step at a
// time; who takes a run from here has it alone, and gives it back only if the journal has all that was done to it.
type recent struct {
	mu    sync.Mutex
	runs  map[writ.RunID]*list.Element // of *recentRun
	order *list.List                   // the last one used first
	bytes int
}

func newRecent() *recent { return &recent{runs: make(map[writ.RunID]*list.Element), order: list.New()} }

// take takes a run out, nil if it is not here.
func (r *recent) take(id writ.RunID) *recentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.runs[id]
	if e == nil {
		return nil
	}
	return r.remove(e)
}

// projectOf returns the project of a run that is kept, "" if it is not.
func (r *recent) projectOf(id writ.RunID) writ.ProjectID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.runs[id]; e != nil {
		return e.Value.(*recentRun).run.Project
	}
	return ""
}

// put keeps a run.
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
