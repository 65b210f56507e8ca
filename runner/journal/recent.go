package journal

import (
	"context"
	"sync"

	"writ"
)

// recentRuns is the minimum number of remembered runs, and recentCalls is the number of remembered calls of each run.
// Together they take at most 2 MiB. For other calls the journal is read.
const (
	recentRuns  = 1024
	recentCalls = 8192
)

// recent remembers which calls of recent runs may have a record. Nearly every job is the first attempt of its call, and
// such a job needs no read of the journal.
type recent struct {
	mu sync.Mutex
	// Requested runs are in young. When young is full, it becomes old, and runs that were only in old are dropped.
	young, old map[writ.RunID]*recentRun
}

// recentRun holds the calls of a run.
type recentRun struct {
	holders int // if positive, the run is not dropped; guarded by recent.mu

	mu    sync.Mutex
	asked bool     // calls contains the calls with a record in the journal
	calls []uint64 // bit set of seq
}

// hold returns the entry of a run and keeps it until release is called.
func (r *recent) hold(run writ.RunID) *recentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.young[run]
	if one == nil {
		if one = r.old[run]; one == nil {
			one = &recentRun{}
		}
		r.put(run, one)
	}
	one.holders++
	return one
}

// put moves a run to young. The caller must hold mu.
func (r *recent) put(run writ.RunID, one *recentRun) {
	if r.young == nil || len(r.young) >= recentRuns {
		before := r.old
		r.young, r.old = make(map[writ.RunID]*recentRun), r.young
		for run, one := range before {
			if one.holders > 0 && r.old[run] == nil {
				r.old[run] = one
			}
		}
	}
	r.young[run] = one
}

// release ends a hold.
func (r *recent) release(one *recentRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.holders--
}

// mark records that the journal may now have a record of a call. A writer must call mark before it writes, and hold the
// run until the write is complete. A concurrent reader that does not find the record in the journal then sees the mark.
func (r *recentRun) mark(seq int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(seq)
}

func (r *recentRun) set(seq int) {
	if seq < 0 || seq >= recentCalls {
		return
	}
	for len(r.calls) <= seq/64 {
		r.calls = append(r.calls, 0)
	}
	r.calls[seq/64] |= 1 << (seq % 64)
}

// mayHave reports whether a call may have a record. The function `of` must return the calls of the run that have a
// record in the journal.
func (r *recentRun) mayHave(ctx context.Context, seq int, of func(ctx context.Context) ([]int, error)) (bool, error) {
	if seq < 0 || seq >= recentCalls {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		calls, err := of(ctx)
		if err != nil {
			return true, err
		}
		for _, c := range calls {
			r.set(c)
		}
		r.asked = true
	}
	return seq/64 < len(r.calls) && r.calls[seq/64]&(1<<(seq%64)) != 0, nil
}
