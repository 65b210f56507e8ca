package mailbox

import (
	"sync"

	"writ"
	"writ/internal/wake"
	"writ/supervisor/mail"
)

// maxSpokenOf limits the unknown runs of a node that wait for a lookup. Messages about further unknown runs are
// dropped; the node repeats these messages.
const maxSpokenOf = 10_000

// boxes holds the mail of the runs that have or await a step, and the order of their steps.
type boxes struct {
	wake wake.Signal // gets a token when a step may be due

	mu      sync.Mutex
	all     map[writ.RunID]*box
	lines   lines
	stalled map[writ.RunID]bool // runs whose last step failed; Retry repeats their steps
}

func newBoxes() *boxes {
	return &boxes{
		wake: wake.New(),
		all:  make(map[writ.RunID]*box), lines: newLines(), stalled: make(map[writ.RunID]bool),
	}
}

// Begin schedules the first step of a new run. Before that, it calls `keep`, which may store the run in memory for the
// step. If the run already has a box, its step may have started, and `keep` is not called.
func (b *boxes) Begin(run writ.RunID, project writ.ProjectID, keep func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[run] == nil {
		keep()
		b.all[run] = &box{line: project}
	}
	b.put(run, project, mail.Mail{})
}

// Post adds mail for a run.
func (b *boxes) Post(run writ.RunID, m mail.Mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(run, "", m)
}

// PostResult adds a result for a run. It drops the result and returns false if the run's box already holds it, or if
// too many unknown runs of the node wait.
func (b *boxes) PostResult(a mail.Arrival) bool {
	b.mu.Lock()
	own := b.all[a.Result.Run]
	known := own != nil && own.held[idOf(&a)]
	b.mu.Unlock()
	return !known && b.PostFrom(a.Node, a.Result.Run, mail.Mail{Results: []mail.Arrival{a}})
}

// PostFrom adds mail from a node for a run. It returns false, and drops the mail, if too many unknown runs of the node
// wait.
func (b *boxes) PostFrom(node writ.NodeID, run writ.RunID, m mail.Mail) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := unknown(node)
	if b.all[run] == nil && len(b.lines.ready[line]) >= maxSpokenOf {
		return false
	}
	b.put(run, line, m)
	return true
}

// put adds mail to the box of a run. A run without a box gets a new box in `line`. The caller holds the lock.
func (b *boxes) put(run writ.RunID, line writ.ProjectID, m mail.Mail) {
	own := b.all[run]
	if own == nil {
		own = &box{line: line}
		b.all[run] = own
	}
	n := len(own.mails)
	if n > 0 && m.Done == nil && own.mails[n-1].Done == nil {
		own.mails[n-1].Add(m)
	} else {
		own.mails = append(own.mails, m)
	}
	if len(m.Results) > 0 && own.held == nil {
		own.held = make(map[resultID]bool)
	}
	for i := range m.Results {
		own.held[idOf(&m.Results[i])] = true
	}
	if !own.busy && !b.stalled[run] && n == 0 {
		b.queue(run)
	}
}

// Knows reports whether a run has or awaits a step, or its last step failed.
func (b *boxes) Knows(run writ.RunID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[run] != nil
}

// Count returns the numbers of runs with a step, of runs that wait for a step, and of runs whose last step failed.
func (b *boxes) Count() (running, waiting, stalled int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.running(), b.lines.waiting(), len(b.stalled)
}

// IsStalled reports whether the last step of a run failed and was not repeated yet.
func (b *boxes) IsStalled(run writ.RunID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stalled[run]
}

// AnyStalled reports whether there is a stalled run.
func (b *boxes) AnyStalled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stalled) > 0
}

// Retry repeats the failed steps of stalled runs.
func (b *boxes) Retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for run := range b.stalled {
		delete(b.stalled, run)
		if own := b.all[run]; own != nil && !own.busy {
			b.queue(run)
		}
	}
	b.wake.Raise()
}

// queue adds a run to its line and wakes Run. The caller holds the lock.
func (b *boxes) queue(run writ.RunID) {
	b.lines.add(b.all[run].line, run)
	b.wake.Raise()
}

// due is a run with the mail for its step. If `unknown` is set, it is a lookup of the runs in `unknown` instead of a
// step.
type due struct {
	run     writ.RunID
	line    writ.ProjectID
	mails   []mail.Mail
	unknown []due
}

// next removes the run of the next step, or the runs of the next lookup, from their line. It marks them busy.
func (b *boxes) next(lookUp bool) (due, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, runs := b.lines.next(lookUp)
	if len(runs) == 0 {
		return due{}, false
	}
	all := make([]due, len(runs))
	for i, run := range runs {
		own := b.all[run]
		own.busy = true
		all[i] = due{run: run, line: line}
		all[i].mails, own.mails = portion(own.mails)
	}
	if lookUp && isUnknown(line) {
		return due{line: line, unknown: all}, true
	}
	return all[0], true
}

// giveBack puts the mail of a run that had no step back into its box, and queues the run in `line`. It removes the box
// of a run without mail.
func (b *boxes) giveBack(d due, line writ.ProjectID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.all[d.run]
	own.busy, own.line, own.mails = false, line, append(d.mails, own.mails...)
	if len(own.mails) == 0 {
		delete(b.all, d.run)
		return
	}
	b.queue(d.run)
}

// end records the end of a step: `taken` are the results that the step applied. If the step failed, `kept` is the mail
// for Retry.
func (b *boxes) end(run writ.RunID, taken []mail.Arrival, failed bool, kept mail.Mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.all[run]
	own.busy = false
	for i := range taken {
		delete(own.held, idOf(&taken[i]))
	}
	switch {
	case failed:
		kept.Compact()
		own.mails = append([]mail.Mail{kept}, own.mails...)
		b.stalled[run] = true
	case len(own.mails) > 0:
		b.queue(run)
	default:
		delete(b.all, run)
	}
}
