package runner

import (
	"context"
	"slices"
	"sync"

	"writ"
)

// maxAsked limits the runs in one answer. The supervisor asks again for the others.
const maxAsked = 64

// questions holds the runs whose inventory the supervisor has asked for.
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

// inventory returns the calls of the requested runs that the node has. If the calls of a run cannot be read, the run is
// omitted and the supervisor asks again. The desk is read before the journal: a job that has left the desk has its
// result in the journal, and no job of an earlier epoch starts afterwards.
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
