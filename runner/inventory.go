package runner

import (
	"context"
	"slices"
	"sync"

	"writ"
)

// maxAsked bounds the runs that are answered for in one beat; the supervisor asks again for the others.
const maxAsked = 64

// questions are the runs of which the supervisor wants to know what the node has.
type questions struct {
	mu   sync.Mutex
	runs []writ.RunID
}

func (q *questions) add(runs []writ.RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, run := range runs {
		if len(q.runs) < maxAsked && !slices.Contains(q.runs, run) {
			q.runs = append(q.runs, run)
		}
	}
}

func (q *questions) take() []writ.RunID {
	q.mu.Lock()
	defer q.mu.Unlock()
	runs := q.runs
	q.runs = nil
	return runs
}

// inventory says what the node has of the runs that it was asked for. A run whose calls cannot be read is left out: it is asked for again.
// The order matters: a job that is not on the desk any more has its result in the journal, and none of an earlier epoch comes after.
func (n *incarnation) inventory(ctx context.Context) (all []writ.Inventory) {
	runs := n.questions.take()
	if len(runs) == 0 {
		return nil
	}
	epoch, working := n.epoch.Load(), n.desk.keys()
	for _, run := range runs {
		calls, err := n.journal.CallsOf(ctx, run)
		if n.noteStore(ctx, err) != nil {
			continue
		}
		for _, key := range working {
			if key.Run == run {
				calls = append(calls, key.Seq)
			}
		}
		slices.Sort(calls)
		all = append(all, writ.Inventory{Run: run, Epoch: epoch, Calls: slices.Compact(calls)})
	}
	return all
}
