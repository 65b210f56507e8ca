package mailbox

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/supervisor/mail"
)

// Run starts steps until ctx ends, then waits for the running ones. Goroutines are reused, because a stack grows during
// a step, and each growth copies it.
func (s *Scheduler) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	work := make(chan due)
	defer close(work)
	workers := 0
	for {
		for d, ok := s.next(); ok; d, ok = s.next() {
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
	s.signal() // another line may wait for this slot
}

// lookUp moves runs to the lines of their projects. Mail for unknown runs is dropped without a step, because a node can
// name any number of runs; only mail with Done gets a step, which returns an error.
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

// giveBack returns the mail of a run that had no step, and queues the run in line. A run without mail is forgotten.
func (s *Scheduler) giveBack(d due, line writ.ProjectID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[d.run]
	b.busy, b.line, b.mails = false, line, append(d.mails, b.mails...)
	if len(b.mails) == 0 {
		delete(s.boxes, d.run)
		return
	}
	s.queue(d.run)
}
