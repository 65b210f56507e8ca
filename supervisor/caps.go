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

// openRuns counts the open runs of each project, so that a submission need not. The journal is the truth: who starts counts there.
type openRuns struct {
	most int

	mu   sync.Mutex
	open map[writ.ProjectID]int
}

// countOpenRuns begins with what is open in the journal.
func (s *Supervisor) countOpenRuns(ctx context.Context) error {
	s.opened = &openRuns{most: s.MaxOpenRuns}
	if s.opened.most <= 0 {
		s.opened.most = DefaultMaxOpenRuns
	}
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		s.opened.open, err = tx.OpenRuns()
		return err
	})
	if err != nil {
		return fmt.Errorf("count open runs: %w", err)
	}
	return nil
}

// enter counts one more run of a project, unless there are too many.
func (o *openRuns) enter(project writ.ProjectID, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if used := o.open[project]; used >= o.most {
		return writ.Errorf(writ.CodeRateLimited, "the project %s has %d open runs in this datacenter, of %d that it may have, and this would be 1 more", name, used, o.most).
			WithHint("wait until some have ended (`writ run list --state accepted,running`), or have the supervisor started with a higher --max-open-runs")
	}
	o.open[project]++
	return nil
}

// add counts a run that was opened (1) or has ended (-1).
func (o *openRuns) add(project writ.ProjectID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[project] += n; o.open[project] <= 0 {
		delete(o.open, project)
	}
}
