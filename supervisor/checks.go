package supervisor

import (
	"context"
	"sync"

	"writ"
	"writ/identity"
	"writ/scripts/check"
	"writ/supervisor/program"
)

// maxChecks limits the reports in memory. A report holds the parameters and operations of a script.
const maxChecks = 64

// checks caches the reports on valid scripts that were checked last. The same script is often submitted again with
// other parameters, and its check takes longer than all other checks of a submission.
type checks struct {
	mu      sync.Mutex
	reports map[writ.Digest]check.Report
	order   []writ.Digest // keys of reports, oldest first
}

func newChecks() *checks { return &checks{reports: make(map[writ.Digest]check.Report)} }

// maxChecking limits concurrent checks. A project gets one at a time: the largest scripts take a tenth of a second of
// CPU time.
const maxChecking = 2

// check returns the report on the script of a payload, from the cache if possible. The report is shared and must not be
// modified.
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
	if report, known := s.checks.find(digest); known { // checked while this caller waited
		return report, nil
	}
	report := check.Check(bundle)
	s.checks.keep(digest, report)
	return report, nil
}

// find returns the cached report on a script.
func (c *checks) find(digest writ.Digest) (check.Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report, known := c.reports[digest]
	return report, known
}

// keep caches a report if the script is valid. The oldest report is dropped if the cache is full.
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
