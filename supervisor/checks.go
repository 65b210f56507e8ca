package supervisor

import (
	"context"
	"sync"

	"writ"
	"writ/identity"
	"writ/scripts/check"
	"writ/supervisor/program"
)

// maxChecks is how many scripts are known to be good. What is kept of one is the list of its parameters and operations.
const maxChecks = 64

// checks remembers what was found of the scripts that were checked last and are good: the same one comes again and again, with other
// parameters, and to check it takes longer than the rest of what is decided on a submission.
type checks struct {
	mu      sync.Mutex
	reports map[writ.Digest]check.Report
	order   []writ.Digest // of reports, the oldest first
}

func newChecks() *checks { return &checks{reports: make(map[writ.Digest]check.Report)} }

// maxChecking is how many scripts are checked at a time. One of each project may be: the biggest take a tenth of a second of CPU time.
const maxChecking = 2

// check checks the script of a payload. The report is shared and must not be changed.
func (s *Supervisor) check(ctx context.Context, p *identity.Payload) (check.Report, error) {
	bundle := program.BundleOf(p)
	digest := bundle.Digest()
	if report, known := s.checks.find(digest); known {
		return report, nil
	}
	done, err := s.checking.Enter(ctx, string(p.Project))
	if err != nil {
		return check.Report{}, err
	}
	defer done()
	if report, known := s.checks.find(digest); known { // since it began to wait
		return report, nil
	}
	report := check.Check(bundle)
	s.checks.keep(digest, report)
	return report, nil
}

// find returns the report on a script that was checked before and is good.
func (c *checks) find(digest writ.Digest) (check.Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report, known := c.reports[digest]
	return report, known
}

// keep remembers the report on a script, if it is good.
func (c *checks) keep(digest writ.Digest, report check.Report) {
	if !report.OK() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.reports[digest]; !known {
		c.reports[digest] = report
		c.order = append(c.order, digest)
	}
	if len(c.order) > maxChecks {
		delete(c.reports, c.order[0])
		c.order = c.order[1:]
	}
}
