package journal

import (
	"context"
	"sync"

	"writ"
)

// recentRuns is how many runs are remembered at least, and recentCalls of how many calls of each: together at most 2 MiB. Of what is not
// remembered the journal is asked.
const (
	recentRuns  = 1024
	recentCalls = 8192
)

// recent remembers of which calls there may be something in the journal, as far as they belong to the runs that were asked for last.
// Nearly every job is the first of its call, and then nobody needs to look.
type recent struct {
	mu sync.Mutex
	// Who is asked for is young. When those are many, they are the old ones, and who was old and is not asked for is forgotten.
	young, old map[writ.RunID]*recentRun
}

// recentRun is what is remembered of a run.
type recentRun struct {
	holders int // what is held is not forgotten; recent.mu guards it

	mu    sync.Mutex
	asked bool     // the journal was; what was noted before that is noted besides
	calls []uint64 // a bit for each seq
}

// hold returns what is remembered of a run, which stays the same until let is called.
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

// put makes a run young. The caller holds mu.
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

// let ends a hold.
func (r *recent) let(one *recentRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.holders--
}

// note remembers that there may be something of a call from now on. Whoever writes something holds the run from before that until it is
// written: who asks meanwhile, and is told by the journal that there is nothing, finds this.
func (r *recentRun) note(seq int) {
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

// mayHave reports whether there may be something of a call. of asks the journal for the calls of the run of which it has something.
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
