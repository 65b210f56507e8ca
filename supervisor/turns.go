package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"writ"
	"writ/runner/queue"
	"writ/supervisor/journal"
)

// maxTurns is how many runs take a turn at the same time. Turns mostly wait for a shared commit, so there are more than cores.
const maxTurns = 64

// mail is what came in for a run since its last turn.
type mail struct {
	results []arrival
	started []active // their nodes work on them
	// progress is how far calls are, the newest of each last.
	progress []advance
	again    []sending     // lost on the way: to be delivered again
	overdue  []writ.JobKey // past their end-by, and nobody reported
	lost     []writ.NodeID // nodes that did not come back
	stop     *stop
	resume   *resumption   // nobody else's mail is with it
	taken    []writ.JobKey // withdrawn from the queue before a node took them

	// also is written in the transaction of the turn; done is told when that is on disk.
	also func(tx *journal.Tx) error
	done chan<- error
}

// arrival is a result whose seal was verified.
type arrival struct {
	result  writ.Result
	node    writ.NodeID    // whose key sealed it
	frame   *journal.Frame // for the proof
	message queue.Message
}

// active is a job that a node says it works on.
type active struct {
	key  writ.JobKey
	node writ.NodeID
}

// advance is what a node says of a job that it works on.
type advance struct {
	key  writ.JobKey
	node writ.NodeID
	text string
}

// sending names one delivery.
type sending struct {
	key      writ.JobKey
	delivery int
}

func sendingOf(c *journal.Call) sending { return sending{c.Key(), c.Delivery} }

// taskOf is what a delivery is called in the queue.
func taskOf(s sending) string { return fmt.Sprintf("%s-%d", s.key, s.delivery) }

func (m *mail) add(n mail) {
	m.results = append(m.results, n.results...)
	m.started = append(m.started, n.started...)
	for _, p := range n.progress { // only the newest counts
		m.progress = append(slices.DeleteFunc(m.progress, func(before advance) bool { return before.key == p.key }), p)
	}
	m.again = append(m.again, n.again...)
	m.overdue = append(m.overdue, n.overdue...)
	m.lost = append(m.lost, n.lost...)
	m.taken = append(m.taken, n.taken...)
	if n.stop != nil {
		m.stop = n.stop
	}
}

// compact drops what is said twice: while a run cannot be written, the same is noticed every second.
func (m *mail) compact() {
	m.started, m.again, m.overdue = unique(m.started), unique(m.again), unique(m.overdue)
	m.lost, m.taken = unique(m.lost), unique(m.taken)
}

func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		known := seen[v]
		seen[v] = true
		return known
	})
}

// turns gives each run its mail, one turn at a time: mail that comes in during a turn waits for the next one and comes together.
type turns struct {
	take func(ctx context.Context, run writ.RunID, m mail) error
	log  *slog.Logger

	mu    sync.Mutex
	boxes map[writ.RunID]*box
	ready []writ.RunID // boxes with mail whose run has no turn
	wake  chan struct{}
	// stalled runs could not write their turn; retry lets them try again.
	stalled map[writ.RunID]bool
}

type box struct {
	busy  bool
	mails []mail
	held  map[resultID]bool // in mails, or in the turn under way; nil if none was
}

// resultID tells results apart: nodes send them again until they are acknowledged.
type resultID struct {
	active
	job writ.Digest
}

func (a *arrival) id() resultID { return resultID{active{a.result.JobKey, a.node}, a.result.Job} }

func newTurns(take func(ctx context.Context, run writ.RunID, m mail) error, log *slog.Logger) *turns {
	return &turns{take: take, log: log, boxes: make(map[writ.RunID]*box), wake: make(chan struct{}, 1), stalled: make(map[writ.RunID]bool)}
}

// postResult gives a result to a run. It reports false if the run has it already and could not write it yet: then nothing is kept.
func (t *turns) postResult(a arrival) bool {
	t.mu.Lock()
	b := t.boxes[a.result.Run]
	known := b != nil && b.held[a.id()]
	t.mu.Unlock()
	if !known {
		t.post(a.result.Run, mail{results: []arrival{a}})
	}
	return !known
}

// begin gives a run its first turn. Before that, keep may put the run where the turn finds it; it is not called if somebody else was faster
// to notice the run: then a turn is under way already that has read it.
func (t *turns) begin(run writ.RunID, keep func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.boxes[run] == nil {
		keep()
	}
	t.put(run, mail{})
}

// post gives mail to a run, which gets a turn for it. An empty mail is a plain wake-up.
func (t *turns) post(run writ.RunID, m mail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(run, m)
}

// put is post for who holds the lock.
func (t *turns) put(run writ.RunID, m mail) {
	b := t.boxes[run]
	if b == nil {
		b = new(box)
		t.boxes[run] = b
	}
	n := len(b.mails)
	if n > 0 && m.done == nil && b.mails[n-1].done == nil {
		b.mails[n-1].add(m)
	} else {
		b.mails = append(b.mails, m)
	}
	if len(m.results) > 0 && b.held == nil {
		b.held = make(map[resultID]bool)
	}
	for i := range m.results {
		b.held[m.results[i].id()] = true
	}
	if !b.busy && !t.stalled[run] && n == 0 {
		t.ready = append(t.ready, run)
		t.signal()
	}
}

// isStalled reports whether the last turn of a run could not be written, and was not tried again yet.
func (t *turns) isStalled(run writ.RunID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stalled[run]
}

// anyStalled reports whether there is such a run.
func (t *turns) anyStalled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.stalled) > 0
}

// retry lets the runs whose last turn could not be written try again.
func (t *turns) retry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for run := range t.stalled {
		delete(t.stalled, run)
		if b := t.boxes[run]; b != nil && !b.busy {
			t.ready = append(t.ready, run)
		}
	}
	t.signal()
}

func (t *turns) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// due is a run that has a turn, with what came in for it.
type due struct {
	run   writ.RunID
	mails []mail
}

// run hands out turns until ctx ends and the turns under way are over. Who has carried out a turn stays for the next one: the stack that a
// turn takes grows in steps, each of which copies it.
func (t *turns) run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	work := make(chan due)
	defer close(work)
	workers := 0
	for {
		for d, ok := t.next(); ok; d, ok = t.next() {
			select {
			case work <- d:
				continue
			default:
			}
			if workers == maxTurns {
				work <- d
				continue
			}
			workers++
			group.Go(func() {
				t.turn(ctx, d.run, d.mails)
				for d := range work {
					t.turn(ctx, d.run, d.mails)
				}
			})
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *turns) next() (due, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ready) == 0 {
		return due{}, false
	}
	run := t.ready[0]
	t.ready = t.ready[1:]
	b := t.boxes[run]
	b.busy = true
	mails := b.mails
	b.mails = nil
	return due{run, mails}, true
}

// turn takes mails in as few turns as possible: those that somebody waits for get their own, so that an error is theirs.
func (t *turns) turn(ctx context.Context, run writ.RunID, mails []mail) {
	var all mail
	plain := false
	var failed error
	for _, m := range mails {
		if m.done == nil {
			all.add(m)
			plain = true
			continue
		}
		m.done <- t.take(ctx, run, m)
	}
	if plain {
		failed = t.take(ctx, run, all)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.boxes[run]
	b.busy = false
	if failed != nil {
		if ctx.Err() == nil && writ.CodeOf(failed) != writ.CodeStoreUnavailable { // that is said once, not for each run
			t.log.Warn("a run cannot advance; it is tried again", "run", run, "err", failed)
		}
		all.compact()
		b.mails = append([]mail{all}, b.mails...)
		t.stalled[run] = true
		return
	}
	for i := range all.results {
		delete(b.held, all.results[i].id())
	}
	switch {
	case len(b.mails) > 0:
		t.ready = append(t.ready, run)
		t.signal()
	default:
		delete(t.boxes, run)
	}
}
