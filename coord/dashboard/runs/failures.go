package runs

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/dashboard/widget"
	"writ/ledger"
)

// maxFailures limits the groups of failures on a page.
const maxFailures = 60

// spans lists the time spans that the page of failures offers, as parameter values.
var spans = []string{"1h", "24h", "168h", "2160h"}

var spanNames = map[string]string{
	"1h": "the last hour", "24h": "the last 24 hours", "168h": "the last 7 days", "2160h": "the last 90 days",
}

const (
	textParam      = "text"
	sinceParam     = "since"
	failureParam   = "failure"
	operationParam = "operation"
	logsParam      = "logs" // any value also selects runs that only read logs
)

// sinceOf parses a time span before now, such as 24h, and returns its start. The result for "" is the zero time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	span, err := time.ParseDuration(text)
	if err != nil || span < time.Second || span > 366*24*time.Hour {
		return time.Time{}, writ.Errorf(writ.CodeBadRequest,
			"%s must be a duration from 1s to 8784h such as 1h, 24h or 168h; got %q", sinceParam, text)
	}
	return now.Add(-span).Truncate(time.Second), nil
}

// failures is the page of failed runs, grouped by code and operation.
func (d *ListPages) failures(ctx context.Context, r *http.Request, quiet bool) (*page.Page, error) {
	q := r.URL.Query()
	if q.Get(sinceParam) == "" {
		q.Set(sinceParam, "24h")
	}
	filter, err := d.filtersOf(ctx, q)
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data := failuresPage{
		Selection: d.SelectionOf(ctx, now, q), Since: q.Get(sinceParam),
		Kept: slices.DeleteFunc(kept(q, "signer", textParam), func(v widget.Named) bool { return v.Name == sinceParam }),
	}
	for _, span := range spans {
		data.Spans = append(data.Spans, widget.Named{Name: span, Text: spanNames[span]})
	}
	if !slices.Contains(spans, data.Since) {
		data.Spans = append(data.Spans, widget.Named{Name: data.Since, Text: "the last " + data.Since})
	}
	p := &page.Page{Title: "Failures", Nav: "failures", Body: data}
	if quiet {
		return p, nil
	}
	groups, err := d.Ledger.Failures(ctx, filter, maxFailures)
	if err != nil {
		return nil, err
	}
	rows := make([]failureRow, len(groups))
	for i, g := range groups {
		rows[i] = failureRow{g, listOf(q, g)}
	}
	page.Add(p, page.Part{ID: "failures", OfLedger: true}, rows...)
	return p, nil
}

// listOf returns the address of the list of the runs in a group.
func listOf(q url.Values, g ledger.Failures) string {
	list := url.Values{}
	for name, values := range q {
		same := []string{"project", "datacenter", "signer", "script", "deployment", textParam, sinceParam, logsParam}
		if slices.Contains(same, name) && values[0] != "" {
			list.Set(name, values[0])
		}
	}
	list.Set(failureParam, string(g.Code))
	list.Set(operationParam, g.Operation)
	if g.Operation == "" {
		list.Set(operationParam, ledger.NoOperation)
	}
	return "/?" + list.Encode()
}

type failuresPage struct {
	snapshot.Selection
	Since string
	Spans []widget.Named
	Kept  []widget.Named
}

// failureRow is a row of the list of failures.
type failureRow struct {
	ledger.Failures
	List string // address of the list of these runs
}

// Key identifies the group.
func (r failureRow) Key() string { return string(r.Code) + " " + r.Operation }

// Explain returns the meaning of the code.
func (r failureRow) Explain() string { return r.Code.Info().Explain() }

// Command returns the command that explains the code, or "" if writ does not define the code.
func (r failureRow) Command() string {
	if !slices.ContainsFunc(writ.Codes, func(c writ.CodeInfo) bool { return c.Code == r.Code }) {
		return ""
	}
	return "writ explain " + string(r.Code)
}

// byOutcome reports whether a filter selects runs by a text or by their failure.
func byOutcome(f ledger.RunFilter) bool { return f.Text != "" || f.Failure != "" || f.Operation != "" }

// isSearch reports whether a page of the list may be short or empty although it has a next page: the ledger has a list
// for one of these conditions, and not for two of them.
func isSearch(f ledger.RunFilter) bool {
	n := 0
	for _, is := range []bool{len(f.Projects) > 0, f.Datacenter != "", f.Signer != "", f.Script != "", f.Deployment != ""} {
		if is {
			n++
		}
	}
	return n > 1 || byOutcome(f)
}

// narrow reports whether a filter has conditions besides projects and states.
func narrow(f ledger.RunFilter) bool {
	return f.Datacenter != "" || f.Failure != "" || !f.Since.IsZero() || !f.WithoutLogs ||
		strings.Join([]string{f.Signer, f.Script, f.Deployment, f.Text, f.Operation}, "") != ""
}
