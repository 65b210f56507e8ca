package supervisor

import (
	"sync"

	"writ"
	"writ/scripts"
)

// maxChecks is how many scripts are known to be good. What is kept of one is the list of its parameters and operations.
const maxChecks = 64

// checks remembers what was found of the scripts that were checked last and are good: the same one comes again and again, with other
// parameters, and to check it takes longer than the rest of what is decided on a submission.
type checks struct {
	mu      sync.Mutex
	reports map[writ.Digest]scripts.Report
	order   []writ.Digest // of reports, the oldest first
}

func newChecks() *checks { return &checks{reports: make(map[writ.Digest]scripts.Report)} }

// of checks a script. The report is shared and must not be changed.
func (c *checks) of(bundle scripts.Bundle) scripts.Report {
	digest := bundle.Digest()
	c.mu.Lock()
	report, known := c.reports[digest]
	c.mu.Unlock()
	if known {
		return report
	}
	report = scripts.Check(bundle)
	if !report.OK() {
		return report
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
	return report
}
