package supervisor

import (
	"context"
	"fmt"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// DefaultMaxOpenRuns limits the open runs of a project: twice the number in the performance tests of a supervisor.
const DefaultMaxOpenRuns = 200_000

// DefaultMaxOpenCalls limits the open calls of a project: five for each possible run. A project at the limit gets no
// new runs.
const DefaultMaxOpenCalls = 1_000_000

// openWork counts the open runs and calls of each project in memory, so that a submission does not count them in the
// journal. The counts are loaded from the journal at start. Only new runs are refused. An open run may make every call
// that its header allows; otherwise a run that holds a resource could stop while other runs wait for that resource.
type openWork struct {
	mostRuns, mostCalls int

	mu          sync.Mutex
	runs, calls map[writ.ProjectID]int
}

// countOpenWork loads the counts of open runs and calls from the journal.
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

// enter counts a new run of a project. If the project is at a limit, it returns RATE_LIMITED and does not count the
// run. calls is the maximum number of calls of the run, for the message.
func (o *openWork) enter(project writ.ProjectID, name string, calls int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := o.calls[project]; used >= o.mostCalls {
		return writ.Errorf(writ.CodeRateLimited,
			"the project %s has %d open calls in this datacenter, of %d that it may have, and this run may make %d more", name,
			used, o.mostCalls, calls).
			WithHint("open runs go on; wait until calls of them have ended (`writ run list --state running`), or have the supervisor started with a higher --max-open-calls")
	}
	if used := o.runs[project]; used >= o.mostRuns {
		return writ.Errorf(writ.CodeRateLimited,
			"the project %s has %d open runs in this datacenter, of %d that it may have, and this would be 1 more", name, used,
			o.mostRuns).
			WithHint("wait until some have ended (`writ run list --state accepted,running`), or have the supervisor started with a higher --max-open-runs")
	}
	o.runs[project]++
	return nil
}

// AddCalls adds n open calls; n is negative for ended calls.
func (o *openWork) AddCalls(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls[project] += n; o.calls[project] <= 0 {
		delete(o.calls, project)
	}
}

// total returns the number of open runs in all projects.
func (o *openWork) total() (runs int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.runs {
		runs += n
	}
	return runs
}

// AddRuns adds n open runs; n is negative for ended runs.
func (o *openWork) AddRuns(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs[project] += n; o.runs[project] <= 0 {
		delete(o.runs, project)
	}
}
