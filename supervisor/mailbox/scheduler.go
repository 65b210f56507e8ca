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

// Scheduler runs steps with the mail of each run. Mail that arrives during a step is collected for the run's next step.
// Create it with New.
type Scheduler struct {
	// Owners returns the projects of runs that were not announced with Begin. Unknown runs are omitted. If Owners is
	// nil, runs are not looked up.
	Owners func(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error)
	// Drop receives the results for unknown runs.
	Drop func(results []mail.Arrival)

	*boxes
	take   func(ctx context.Context, run writ.RunID, m mail.Mail) error
	log    *slog.Logger
	errors limit.Lines // limits log lines, by error code
}

// New returns a scheduler that calls `take` for each step.
func New(take func(ctx context.Context, run writ.RunID, m mail.Mail) error, log *slog.Logger) *Scheduler {
	return &Scheduler{boxes: newBoxes(), take: take, log: log}
}

// Run starts steps until ctx ends, then waits for the running steps. It reuses goroutines, because the stack of a
// goroutine grows during a step, and each growth copies the stack.
func (s *Scheduler) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	work := make(chan due)
	defer close(work)
	workers := 0
	for {
		for d, ok := s.next(s.Owners != nil); ok; d, ok = s.next(s.Owners != nil) {
			select {
			case work <- d:
				continue
			default:
			}
			if workers == maxSteps {
				work <- d
				continue
			}
			workers++
			group.Go(func() {
				s.serve(ctx, d)
				for d := range work {
					s.serve(ctx, d)
				}
			})
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// serve runs the step of a run, or looks up the projects of unknown runs.
func (s *Scheduler) serve(ctx context.Context, d due) {
	if d.unknown != nil {
		s.lookUp(ctx, d.unknown)
	} else {
		s.step(ctx, d.run, d.mails)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines.end(d.line)
	s.wake.Raise() // another line may wait for this slot
}

// lookUp moves runs to the lines of their projects. Mail for unknown runs is dropped without a step, because a node can
// name any number of runs. Only mail with Done gets a step, which returns an error.
func (s *Scheduler) lookUp(ctx context.Context, all []due) {
	runs := make([]writ.RunID, len(all))
	for i, d := range all {
		runs[i] = d.run
	}
	owners, err := s.Owners(runs)
	var dropped []mail.Arrival
	for _, d := range all {
		project, known := owners[d.run]
		switch {
		case known:
			s.giveBack(d, project)
		case err != nil || slices.ContainsFunc(d.mails, func(m mail.Mail) bool { return m.Done != nil }):
			s.step(ctx, d.run, d.mails)
		default:
			for _, m := range d.mails {
				dropped = append(dropped, m.Results...)
			}
			s.giveBack(due{run: d.run}, d.line)
		}
	}
	if len(dropped) > 0 {
		s.Drop(dropped)
	}
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
	if failed != nil {
		s.logFailure(ctx, run, failed)
	}
	s.end(run, taken, failed != nil, kept)
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
			s.wake.Raise()
		}
	}
}
