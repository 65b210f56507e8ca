// Package quota limits the open runs and calls of each project. Package workflow counts their ends.
package quota

import (
	"context"
	"fmt"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// DefaultMaxRuns limits the open runs of a project: twice the number in the performance tests of a supervisor.
const DefaultMaxRuns = 200_000

// DefaultMaxCalls limits the open calls of a project: five for each possible run. A project at the limit gets no
// new runs.
const DefaultMaxCalls = 1_000_000

// Open counts the open runs and calls of each project in memory, so that a submission does not count them in the
// journal. The counts are loaded from the journal at start. Only new runs are refused. An open run may make every call
// that its header allows. Otherwise a run that holds a resource could stop while other runs wait for that resource.
type Open struct {
	mostRuns, mostCalls int

	mu          sync.Mutex
	runs, calls map[writ.ProjectID]int
}

// Load returns the counts of the open runs and calls in the journal, with the limits of each project. A limit of 0 or
// less means the default.
func Load(ctx context.Context, j *journal.Journal, maxRuns, maxCalls int) (*Open, error) {
	o := &Open{mostRuns: maxRuns, mostCalls: maxCalls}
	if o.mostRuns <= 0 {
		o.mostRuns = DefaultMaxRuns
	}
	if o.mostCalls <= 0 {
		o.mostCalls = DefaultMaxCalls
	}
	err := j.Read(ctx, func(tx *journal.Tx) (err error) {
		if o.runs, err = tx.OpenRuns(); err == nil {
			o.calls, err = tx.OpenCalls()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count open runs and calls: %w", err)
	}
	return o, nil
}

// Enter counts a new run of a project. If the project is at a limit, it returns RATE_LIMITED and does not count the
// run. calls is the maximum number of calls of the run, for the message.
func (o *Open) Enter(project writ.ProjectID, name string, calls int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := o.calls[project]; used >= o.mostCalls {
		return writ.Errorf(writ.CodeRateLimited,
			"the project %s has %d open calls in this datacenter, of %d that it may have, and this run may make %d more", name,
			used, o.mostCalls, calls).
			WithHint("wait until calls of open runs have ended (`writ run list --state running`), or have the " +
				"supervisor started with a higher --max-open-calls")
	}
	if used := o.runs[project]; used >= o.mostRuns {
		return writ.Errorf(writ.CodeRateLimited,
			"the project %s has %d open runs in this datacenter, of %d that it may have, and this would be 1 more", name, used,
			o.mostRuns).
			WithHint("wait until some have ended (`writ run list --state accepted,running`), or have the supervisor " +
				"started with a higher --max-open-runs")
	}
	o.runs[project]++
	return nil
}

// AddCalls adds n open calls; n is negative for ended calls.
func (o *Open) AddCalls(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls[project] += n; o.calls[project] <= 0 {
		delete(o.calls, project)
	}
}

// Runs returns the number of open runs in all projects.
func (o *Open) Runs() (runs int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.runs {
		runs += n
	}
	return runs
}

// AddRuns adds n open runs; n is negative for ended runs.
func (o *Open) AddRuns(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs[project] += n; o.runs[project] <= 0 {
		delete(o.runs, project)
	}
}
