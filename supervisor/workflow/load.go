package workflow

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
)

// load returns the next step of a run, nil if the run is unknown.
func (a *Advancer) load(ctx context.Context, id writ.RunID, m mail.Mail) (t *Step, err error) {
	if t := a.again(id, m); t != nil {
		return t, nil
	}
	err = a.Journal.Read(ctx, func(tx *journal.Tx) error {
		t, err = a.reload(tx, id, m)
		return err
	})
	return t, err
}

// again returns the next step of a run in memory. It returns nil if the run is not in memory, or if the step needs
// facts that only the journal has.
func (a *Advancer) again(id writ.RunID, m mail.Mail) *Step {
	r := a.recent.take(id)
	if r == nil || r.run.State == writ.RunAccepted && r.run.Deployment != "" {
		return nil
	}
	t := NewStep(a.View, r.run, a.Now().UTC().Truncate(time.Microsecond)) // the precision of the journal
	t.calls = r.calls
	t.rebase()
	for i, arrival := range m.Results {
		c := t.calls.at(arrival.Result.Seq)
		if c == nil || !c.LastSent(arrival.Result.Attempt, arrival.Node, arrival.Result.Job) || arrival.Result.Found != "" {
			return nil
		}
		t.genuine[i] = true
	}
	if slices.ContainsFunc(m.Started, func(a mail.Active) bool { return lacks(&t.calls, a.Key.Seq) }) {
		return nil
	}
	return t
}

// reload reads a run and all facts about its mail from the journal.
func (a *Advancer) reload(tx *journal.Tx, id writ.RunID, m mail.Mail) (*Step, error) {
	run, err := tx.Run(id)
	if err != nil || run == nil {
		return nil, err
	}
	t := NewStep(a.View, run, tx.Now)
	first, before := run.FirstEnded, run.FirstEndedBytes
	if m.Resume != nil { // it may reopen any call
		first, before = 0, 0
	}
	all, err := tx.CallsAfter(id, first)
	if err != nil {
		return nil, err
	}
	t.calls = newCallList(first, all)
	if err := fetchNeeds(&t.calls, tx, run); err != nil {
		return nil, err
	}
	if first > 0 && run.FirstPart > 0 {
		t.calls.parts.seqs = []int{run.FirstPart}
		if err := fetch(&t.calls, tx, run, run.FirstPart); err != nil {
			return nil, err
		}
	}
	for _, a := range m.Started {
		if err := fetch(&t.calls, tx, run, a.Key.Seq); err != nil {
			return nil, err
		}
	}
	run.Bytes = before + t.calls.bytes() // a changed sum alone causes no write of the run
	t.rebase()
	if run.State == writ.RunAccepted {
		if t.blocked, err = tx.EarlierRun(run); err != nil {
			return nil, err
		}
	}
	for i, arrival := range m.Results {
		if err := fetch(&t.calls, tx, run, arrival.Result.Seq); err != nil {
			return nil, err
		}
		c := t.calls.at(arrival.Result.Seq)
		if c == nil {
			continue
		}
		if t.genuine[i], err = tx.WasSent(c, arrival.Result.Attempt, arrival.Node, arrival.Result.Job); err != nil {
			return nil, err
		}
		if t.left[i], err = leftoverOf(tx, c, arrival); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// remember keeps an open run in memory for its next step. The caller has written the step to the journal.
func remember(a *Advancer, t *Step) {
	if t.run.State.Ended() {
		return
	}
	t.run.Committed()
	for seq := range t.touched {
		t.calls.at(seq).Committed()
	}
	t.calls.entries.update(&t.calls, t.touched)
	dropEnded(&t.calls)
	dropFirst(&t.calls, t.run.FirstEnded, t.run.FirstPart)
	a.recent.put(&recentRun{run: t.run, calls: t.calls})
}

// Owners returns the projects of runs. Unknown runs are omitted.
func (a *Advancer) Owners(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
	owners := make(map[writ.RunID]writ.ProjectID)
	var rest []writ.RunID
	for _, id := range runs {
		if project := a.recent.projectOf(id); project != "" {
			owners[id] = project
		} else {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return owners, nil
	}
	err := a.Journal.Read(context.Background(), func(tx *journal.Tx) error {
		for _, id := range rest {
			run, err := tx.Run(id)
			if err != nil && writ.CodeOf(err) != writ.CodeRecordForged {
				return err
			}
			switch {
			case err != nil:
				owners[id] = mailbox.Forged
			case run != nil:
				owners[id] = run.Project
			}
		}
		return nil
	})
	return owners, err
}

// Trim removes from memory the runs that had no step since the last call of Trim.
func (a *Advancer) Trim() { a.recent.trim() }

// maxRecentBytes limits the runs in memory between two of their steps. Other runs are read again from the journal. It
// suffices for about 2,000 runs of ten calls, or 9,000 runs of one. In a backlog of that size, the steps of all runs
// take turns.
const maxRecentBytes = 32 << 20

// maxLargeBytes limits the one run in memory that would replace many others. A resumed run with all of its 10,000 calls
// needs some 20 MiB, and reading them takes 0.1 s of CPU.
const maxLargeBytes = 64 << 20

// recentRun is a run with its calls, equal to their state in the journal.
type recentRun struct {
	run   *journal.Run
	calls callList
	round int // recent.round when the run was put there
}

// size estimates the memory of a run.
func (r *recentRun) size() int {
	const inMemory, run, call = 4, 2 << 10, 3 << 9 // memory per encoded byte, and of a run and a call without values
	bytes := r.run.Bytes
	if r.calls.first > 0 {
		bytes -= r.run.FirstEndedBytes
	}
	for _, c := range r.calls.old {
		bytes += bound.Size(c.Args) + bound.Size(c.Values)
	}
	return run + call*(len(r.calls.all)+len(r.calls.old)) + inMemory*bytes
}

// recent caches runs after their last step. Only steps change a run, one at a time. A step removes the run from the
// cache, and puts it back only after all its changes are in the journal.
type recent struct {
	mu    sync.Mutex
	runs  map[writ.RunID]*list.Element // of *recentRun
	order *list.List                   // most recently used first
	bytes int
	large *recentRun // the last run that would replace many others; not in runs
	round int        // number of calls of trim
}

func newRecent() *recent { return &recent{runs: make(map[writ.RunID]*list.Element), order: list.New()} }

// take removes and returns a run, nil if it is not cached.
func (r *recent) take(id writ.RunID) *recentRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.large; run != nil && run.run.ID == id {
		r.large = nil
		return run
	}
	e := r.runs[id]
	if e == nil {
		return nil
	}
	return r.remove(e)
}

// projectOf returns the project of a run, "" if the run is not cached.
func (r *recent) projectOf(id writ.RunID) writ.ProjectID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.large != nil && r.large.run.ID == id {
		return r.large.run.Project
	}
	if e := r.runs[id]; e != nil {
		return e.Value.(*recentRun).run.Project
	}
	return ""
}

// put adds a run. Of the runs that would replace many others, it keeps the last one.
func (r *recent) put(run *recentRun) {
	size := run.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	run.round = r.round
	if size > maxRecentBytes/4 {
		if size <= maxLargeBytes {
			r.large = run
		}
		return
	}
	r.runs[run.run.ID] = r.order.PushFront(run)
	r.bytes += size
	for r.bytes > maxRecentBytes {
		r.remove(r.order.Back())
	}
}

// trim removes the runs that were put before the last call of trim.
func (r *recent) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Back(); e != nil && e.Value.(*recentRun).round < r.round; e = r.order.Back() {
		r.remove(e)
	}
	if r.large != nil && r.large.round < r.round {
		r.large = nil
	}
	r.round++
}

func (r *recent) remove(e *list.Element) *recentRun {
	run := r.order.Remove(e).(*recentRun)
	delete(r.runs, run.run.ID)
	r.bytes -= run.size()
	return run
}
