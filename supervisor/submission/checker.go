package submission

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"writ"
	"writ/identity"
	"writ/internal/fair"
	"writ/scripts"
	"writ/scripts/check"
)

// maxChecks limits the reports in memory. A report holds the parameters and operations of a script.
const maxChecks = 64

// maxChecking limits concurrent checks. A project gets one check at a time: the largest scripts take a tenth of a
// second of CPU time.
const maxChecking = 2

// Checker checks scripts and caches the newest reports on valid scripts. A script is often submitted again with other
// parameters, and its check takes longer than all other checks of a submission. Create it with NewChecker.
type Checker struct {
	Slots fair.Slots // running checks, by project

	mu      sync.Mutex
	reports map[writ.Digest]check.Report
	order   []writ.Digest // keys of reports, oldest first
}

// NewChecker returns a checker without reports.
func NewChecker() *Checker {
	return &Checker{Slots: fair.Slots{Size: maxChecking, Most: 1}, reports: make(map[writ.Digest]check.Report)}
}

// Check applies the checks of `writ check`. It also refuses signed parameters that are incomplete or invalid, and
// operations that the signed header does not allow. The bundle is program.BundleOf(p).
func (c *Checker) Check(ctx context.Context, p *identity.Payload, bundle scripts.Bundle) error {
	report, err := c.report(ctx, p.Project, bundle)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	filled, err := report.Params.Fill(p.Params)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(filled, orEmpty(p.Params)) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the script has parameters that are not signed").
			WithHint("sign it again with this version of writ")
	}
	for _, operation := range report.Operations {
		if !slices.Contains(p.Allow, operation) && !strings.HasPrefix(operation, "run.") {
			return writ.Errorf(writ.CodeOperationNotAllowed, "the script calls %s, which its signed header does not allow",
				operation).
				WithHint("sign it again with this version of writ")
		}
	}
	return nil
}

func orEmpty(params map[string]any) map[string]any {
	if params == nil {
		return map[string]any{}
	}
	return params
}

// report returns the report on a script of a project, from the cache if possible. The report is shared and must not be
// modified.
func (c *Checker) report(ctx context.Context, project writ.ProjectID, bundle scripts.Bundle) (check.Report, error) {
	digest := bundle.Digest()
	if report, known := c.find(digest); known {
		return report, nil
	}
	done, err := c.Slots.Enter(ctx, string(project))
	if err != nil {
		return check.Report{}, err
	}
	defer done()
	if report, known := c.find(digest); known { // checked while this caller waited
		return report, nil
	}
	report := check.Check(bundle)
	c.keep(digest, report)
	return report, nil
}

// find returns the cached report on a script.
func (c *Checker) find(digest writ.Digest) (check.Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	report, known := c.reports[digest]
	return report, known
}

// keep caches a report if the script is valid. The oldest report is dropped if the cache is full.
func (c *Checker) keep(digest writ.Digest, report check.Report) {
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
