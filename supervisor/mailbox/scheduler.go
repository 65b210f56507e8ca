// Package mailbox collects the mail of runs and schedules their steps. A run has at most one step at a time, and the
// steps are shared fairly between projects. The function passed to New implements the step.
package mailbox

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/mail"
)

// maxSpokenOf limits the unknown runs of a node that wait for a lookup. Messages about further unknown runs are
// dropped; the node repeats them.
const maxSpokenOf = 10_000

// Scheduler runs steps with the mail of each run. Mail that arrives during a step is collected for the run's next step.
// Create it with New.
type Scheduler struct {
	// Owners returns the projects of runs that were not announced with Begin. Unknown runs are omitted. If Owners is
	// nil, runs are not looked up.
	Owners func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error)
	// Drop receives the results for unknown runs.
	Drop func(results []mail.Arrival)

	take   func(ctx context.Context, run writ.RunID, m mail.Mail) error
	log    *slog.Logger
	errors limit.Lines // limits log lines, by error code
	wake   chan struct{}

	mu      sync.Mutex
	boxes   map[writ.RunID]*box
	lines   lines
	stalled map[writ.RunID]bool // runs whose last step failed; Retry repeats them
}

// box holds the mail of a run that has or awaits a step, or that is stalled.
type box struct {
	line  writ.ProjectID // project of the run, or the line of unknown runs that it waits in
	busy  bool
	mails []mail.Mail
	held  map[resultID]bool // results in mails or in the current step; nil without results
}

// resultID identifies a result. It detects repetitions: a node resends a result until it is acknowledged.
type resultID struct {
	mail.Active
	job writ.Digest
}

func idOf(a *mail.Arrival) resultID {
	return resultID{mail.Active{Key: a.Result.JobKey, Node: a.Node}, a.Result.Job}
}

// New returns a scheduler whose steps are calls of take.
func New(take func(ctx context.Context, run writ.RunID, m mail.Mail) error, log *slog.Logger) *Scheduler {
	return &Scheduler{
		take: take, log: log, wake: make(chan struct{}, 1),
		boxes: make(map[writ.RunID]*box), lines: newLines(), stalled: make(map[writ.RunID]bool),
	}
}

// Begin schedules the first step of a new run. Before that, it calls keep, which may store the run in memory for the
// step. If the run already has a box, its step may have started, and keep is not called.
func (s *Scheduler) Begin(run writ.RunID, project writ.ProjectID, keep func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boxes[run] == nil {
		keep()
		s.boxes[run] = &box{line: project}
	}
	s.put(run, project, mail.Mail{})
}

// Post adds mail for a run.
func (s *Scheduler) Post(run writ.RunID, m mail.Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(run, "", m)
}

// PostResult adds a result for a run. It returns false, and drops the result, if the run already holds it or if too
// many unknown runs of the node wait.
func (s *Scheduler) PostResult(a mail.Arrival) bool {
	s.mu.Lock()
	b := s.boxes[a.Result.Run]
	known := b != nil && b.held[idOf(&a)]
	s.mu.Unlock()
	return !known && s.PostFrom(a.Node, a.Result.Run, mail.Mail{Results: []mail.Arrival{a}})
}

// PostFrom adds mail from a node for a run. It returns false, and drops the mail, if too many unknown runs of the node
// wait.
func (s *Scheduler) PostFrom(node writ.NodeID, run writ.RunID, m mail.Mail) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := unknown(node)
	if s.boxes[run] == nil && len(s.lines.ready[line]) >= maxSpokenOf {
		return false
	}
	s.put(run, line, m)
	return true
}

// put adds mail to the box of a run. A run without a box is queued in line. The caller holds the lock.
func (s *Scheduler) put(run writ.RunID, line writ.ProjectID, m mail.Mail) {
	b := s.boxes[run]
	if b == nil {
		b = &box{line: line}
		s.boxes[run] = b
	}
	n := len(b.mails)
	if n > 0 && m.Done == nil && b.mails[n-1].Done == nil {
		b.mails[n-1].Add(m)
	} else {
		b.mails = append(b.mails, m)
	}
	if len(m.Results) > 0 && b.held == nil {
		b.held = make(map[resultID]bool)
	}
	for i := range m.Results {
		b.held[idOf(&m.Results[i])] = true
	}
	if !b.busy && !s.stalled[run] && n == 0 {
		s.queue(run)
	}
}

// Knows reports whether a run has or awaits a step, or its last step failed.
func (s *Scheduler) Knows(run writ.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[run] != nil
}

// Count returns the numbers of runs with a step, of runs that wait for one, and of runs whose last step failed.
func (s *Scheduler) Count() (running, waiting, stalled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.running(), s.lines.waiting(), len(s.stalled)
}

// IsStalled reports whether the last step of a run failed and was not repeated yet.
func (s *Scheduler) IsStalled(run writ.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled[run]
}

// AnyStalled reports whether there is a stalled run.
func (s *Scheduler) AnyStalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stalled) > 0
}

// Retry repeats the failed steps of stalled runs.
func (s *Scheduler) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run := range s.stalled {
		delete(s.stalled, run)
		if b := s.boxes[run]; b != nil && !b.busy {
			s.queue(run)
		}
	}
	s.signal()
}

// Slowed records that a step waits for a rate limit of its project, until resume is called. Until then the project gets
// at most maxStepsBeside concurrent steps: further steps would wait as well and then continue all at once.
func (s *Scheduler) Slowed(project writ.ProjectID) (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines.slow[project]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lines.slow[project]--; s.lines.slow[project] == 0 {
			delete(s.lines.slow, project)
			s.signal()
		}
	}
}

// queue adds a run to its line and wakes Run. The caller holds the lock.
func (s *Scheduler) queue(run writ.RunID) {
	s.lines.add(s.boxes[run].line, run)
	s.signal()
}

func (s *Scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// due is a run with the mail for its step. If unknown is set, it stands for a lookup of these runs instead.
type due struct {
	run     writ.RunID
	line    writ.ProjectID
	mails   []mail.Mail
	unknown []due
}

// next removes the run of the next step, or the runs of the next lookup, from their line. It marks them busy.
func (s *Scheduler) next() (due, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, runs := s.lines.next(s.Owners != nil)
	if len(runs) == 0 {
		return due{}, false
	}
	all := make([]due, len(runs))
	for i, run := range runs {
		b := s.boxes[run]
		b.busy = true
		all[i] = due{run: run, line: line}
		all[i].mails, b.mails = portion(b.mails)
	}
	if s.Owners != nil && isUnknown(line) {
		return due{line: line, unknown: all}, true
	}
	return all[0], true
}

// maxStepResults limits the results per step. A step is one transaction and delays other writers. Further results are
// applied in the run's next step, after steps of other projects.
const maxStepResults = 250

// portion splits mails into the mails for the next step and the rest. It does not split mail with Done.
func portion(mails []mail.Mail) (now, rest []mail.Mail) {
	results := 0
	for i, m := range mails {
		room := maxStepResults - results
		if results += len(m.Results); results <= maxStepResults {
			continue
		}
		if m.Done != nil || room == 0 {
			at := max(i, 1)
			return mails[:at:at], mails[at:]
		}
		first := mail.Mail{Results: m.Results[:room:room]}
		m.Results = slices.Clone(m.Results[room:]) // the other fields stay behind the results, which they may refer to
		return append(slices.Clone(mails[:i]), first), append([]mail.Mail{m}, mails[i+1:]...)
	}
	return mails, nil
}

// step applies mails in order. Mail with Done gets a step and an error of its own. After a failed step, its mail and
// all later mail without Done is kept for Retry.
func (s *Scheduler) step(ctx context.Context, run writ.RunID, mails []mail.Mail) {
	var kept mail.Mail
	var taken []mail.Arrival
	var failed error
	for _, m := range mails {
		switch {
		case m.Done != nil:
			m.Done <- s.take(ctx, run, m)
			continue
		case failed == nil:
			failed = s.take(ctx, run, m)
		}
		if failed != nil {
			kept.Add(m)
		} else {
			taken = append(taken, m.Results...)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[run]
	b.busy = false
	for i := range taken {
		delete(b.held, idOf(&taken[i]))
	}
	if failed != nil {
		s.logFailure(ctx, run, failed)
		kept.Compact()
		b.mails = append([]mail.Mail{kept}, b.mails...)
		s.stalled[run] = true
		return
	}
	if len(b.mails) > 0 {
		s.queue(run)
	} else {
		delete(s.boxes, run)
	}
}

// logFailure logs the error of a step at a limited rate. Errors of the store and forged records are logged elsewhere,
// once for all runs.
func (s *Scheduler) logFailure(ctx context.Context, run writ.RunID, err error) {
	code := writ.CodeOf(err)
	if ctx.Err() != nil || code.IsStoreUnavailable() || code == writ.CodeStoreDamaged || code == writ.CodeRecordForged {
		return
	}
	if times, say := s.errors.Say(string(code), time.Now()); say {
		s.log.Warn("advance a run; trying again", "run", run, "code", code, "err", err, "times", times)
	}
}
