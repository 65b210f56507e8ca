package supervisor

import (
	"context"
	"fmt"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// DefaultMaxOpenRuns is how many runs of a project may be open at a time: twice what a supervisor is measured with.
const DefaultMaxOpenRuns = 200_000

// DefaultMaxOpenCalls is how many calls of a project may be open before its next run is refused: five for each run that it may have.
const DefaultMaxOpenCalls = 1_000_000

// openWork counts the open runs of each project and their open calls, so that a submission need not. The journal is the truth: who starts
// counts there. Only new runs are refused: one that is open may make every call that its header allows, or else runs that hold what others
// wait for could not go on.
type openWork struct {
	mostRuns, mostCalls int

	mu          sync.Mutex
	runs, calls map[writ.ProjectID]int
}

// countOpenWork begins with what is open in the journal.
func (s *Supervisor) countOpenWork(ctx context.Context) error {
	s.opened = &openWork{mostRuns: s.MaxOpenRuns, mostCalls: s.MaxOpenCalls}
	if s.opened.mostRuns <= 0 {
		s.opened.mostRuns = DefaultMaxOpenRuns
	}
	if s.opened.mostCalls <= 0 {
		s.opened.mostCalls = DefaultMaxOpenCalls
	}
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if s.opened.runs, err = tx.OpenRuns(); err == nil {
			s.opened.calls, err = tx.OpenCalls()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("count open runs and calls: %w", err)
	}
	return nil
}

// enter counts one more run of a project, that may make so many calls, unless there are too many of either.
func (o *openWork) enter(project writ.ProjectID, name string, calls int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := o.calls[project]; used >= o.mostCalls {
		return writ.Errorf(writ.CodeRateLimited, "the project %s has %d open calls in this datacenter, of %d that it may have, and this run may make %d more", name, used, o.mostCalls, calls).
			WithHint("open runs go on; wait until calls of them have ended (`writ run list --state running`), or have the supervisor started with a higher --max-open-calls")
	}
	if used := o.runs[project]; used >= o.mostRuns {
		return writ.Errorf(writ.CodeRateLimited, "the project %s has %d open runs in this datacenter, of %d that it may have, and this would be 1 more", name, used, o.mostRuns).
			WithHint("wait until some have ended (`writ run list --state accepted,running`), or have the supervisor started with a higher --max-open-runs")
	}
	o.runs[project]++
	return nil
}

// AddCalls counts calls that were opened, or have ended if n is negative.
func (o *openWork) AddCalls(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls[project] += n; o.calls[project] <= 0 {
		delete(o.calls, project)
	}
}

// total returns how many runs are open.
func (o *openWork) total() (runs int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.runs {
		runs += n
	}
	return runs
}

// AddRuns counts runs that were opened, or have ended if n is negative.
func (o *openWork) AddRuns(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs[project] += n; o.runs[project] <= 0 {
		delete(o.runs, project)
	}
}
