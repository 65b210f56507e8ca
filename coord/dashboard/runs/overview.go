// Package runs has the pages of runs: the first page of the dashboard, the lists of failures and stuck runs, and the
// pages of one run with its source, values, log and timeline.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/dashboard/widget"
	"writ/identity/expiring"
	"writ/internal/lazyregexp"
	"writ/ledger"
)

const (
	maxRuns = 50
	// With more than quietNodes nodes, the table of queue depths omits idle nodes, and then the nodes with the fewest
	// calls.
	quietNodes = 24
)

// ListPages serves the lists of runs: all runs, failed runs and stuck runs.
type ListPages struct {
	*snapshot.Source
	Ends       func(ctx context.Context) []expiring.Item // lists the expiring items; may be nil
	LedgerDown func() bool                               // reports an unusable ledger; may be nil

	counted counted
}

// Routes lists the first page and the lists of runs.
func (d *ListPages) Routes() []page.Route {
	return []page.Route{
		{Pattern: "/", View: d.overview, Live: true},
		{Pattern: "/stuck", View: d.stuck, Live: true},
		{Pattern: "/failures", View: d.failures, Live: true},
	}
}

// expiring lists the expiring items.
func (d *ListPages) expiring(ctx context.Context) []expiring.Item {
	if d.Ends == nil {
		return nil
	}
	return d.Ends(ctx)
}

// overview is the first page: the state of the cluster, and the newest runs.
func (d *ListPages) overview(ctx context.Context, r *http.Request, quiet bool) (*page.Page, error) {
	q := r.URL.Query()
	elsewhere, err := d.search(ctx, r.URL)
	if elsewhere != "" || err != nil {
		return &page.Page{Redirect: elsewhere}, err
	}
	filter, err := d.filtersOf(ctx, q)
	if err != nil {
		return nil, err
	}
	if s := ledger.State(q.Get("state")); s != "" {
		if !slices.Contains(ledger.States, s) {
			return nil, writ.Errorf(writ.CodeBadRequest, "unknown state %q", s).WithHint("the states are %s", states())
		}
		filter.States = []ledger.State{s}
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	reader := d.Reader(ctx)
	data := overview{
		Selection: d.SelectionOf(ctx, now, q), Filter: filter, State: q.Get("state"),
		All: page.Address(r.URL, "state", "", "project", "", "signer", "", "datacenter", "", "script", "", "deployment", "",
			textParam, "", sinceParam, "", failureParam, "", operationParam, "", logsParam, ""),
		Kept: kept(q), Since: spanNames[q.Get(sinceParam)],
	}
	if filter.WithoutLogs {
		data.WithLogs = page.Address(r.URL, logsParam, "1")
	}
	data.Commands, data.Submits = manyCommands(q, filter, now, reader), reader.MaySubmit(data.Projects)
	p := &page.Page{Title: "Runs", Nav: "runs"}
	n, err := d.numbersOf(ctx, r.URL, now, filter)
	if err != nil {
		return nil, err
	}
	page.Add(p, page.Part{ID: "counts"}, stateCounts(r.URL, n)...)
	troubled, err := d.troubled(ctx)
	if err != nil {
		return nil, err
	}
	addAttention(p, attentionOf(now, reader, troubled, d.expiring(ctx), d.LedgerDown != nil && d.LedgerDown()))
	snapshot.AddHolds(p, reader, now)
	if reader.All { // nodes and queues belong to all projects together
		if data.History, err = d.addDepths(p, now); err != nil {
			return nil, err
		}
		page.Add(p, page.Part{ID: "boot"}, snapshot.BootCounts(now)...)
	}
	p.Body = data
	if quiet && now.IsSteady() {
		return p, nil
	}
	return p, d.addRuns(ctx, r.URL, p, now, filter)
}

// troubled counts the resources with a problem that the reader may see.
func (d *ListPages) troubled(ctx context.Context) (n int, err error) {
	projects, err := d.Reader(ctx).Selects("")
	if err != nil {
		return 0, err
	}
	counts, err := d.Ledger.CountResources(ctx, ledger.ResourceFilter{Projects: projects, Troubled: true})
	for _, c := range counts {
		n += c
	}
	return n, err
}

// idPrefix matches a prefix of a run id, as in commands.
var idPrefix = lazyregexp.New(`^[a-z2-7]{4,26}$`)

// search returns the address of the result for a text in the signer field, or "" if the text is empty or the signer of
// runs. The field also accepts the name of a script, the id of a run or a prefix of it, and any text in runs. A signer
// whose name looks like a prefix has priority.
func (d *ListPages) search(ctx context.Context, own *url.URL) (elsewhere string, err error) {
	text := strings.TrimSpace(own.Query().Get("signer"))
	switch id := writ.RunID(text); {
	case text == "":
		return "", nil
	case id.Valid():
		if _, err := d.RunOf(ctx, id); err == nil {
			return "/runs/" + text, nil
		}
	case strings.HasSuffix(text, ".tengo"):
		return page.Address(own, "signer", "", textParam, "", "script", text), nil
	}
	projects, err := d.Reader(ctx).Selects("")
	if err != nil {
		return "", err
	}
	signed, err := d.Ledger.CountRuns(ctx, ledger.RunFilter{Projects: projects, Signer: text})
	if err != nil || len(signed) > 0 {
		return "", err
	}
	if idPrefix.MatchString(text) {
		found, err := d.Ledger.Runs(ctx, ledger.RunFilter{Projects: projects, Prefix: text}, ledger.Page{Limit: 2})
		if err != nil {
			return "", err
		}
		if len(found.Items) == 1 {
			return "/runs/" + string(found.Items[0].ID), nil
		}
	}
	return page.Address(own, "signer", "", textParam, text), nil
}

// addDepths adds the open calls of all queues, and returns the points of the chart as JSON.
func (d *ListPages) addDepths(p *page.Page, now *snapshot.Snapshot) (history string, err error) {
	page.Add(p, page.Part{ID: "depth"}, snapshot.DepthOf(now))
	page.Add(p, page.Part{ID: "queues"}, queues(now)...)
	points, err := json.Marshal(d.History.Samples())
	if err != nil {
		return "", fmt.Errorf("encode samples: %w", err)
	}
	return string(points), nil
}

// states lists all states for a sentence.
func states() string {
	names := make([]string, len(ledger.States))
	for i, s := range ledger.States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// overview is the body of the first page, without its parts.
type overview struct {
	snapshot.Selection
	Commands []page.Command // commands for all runs of the list
	Filter   ledger.RunFilter
	State    string
	All      string         // the address without filters
	WithLogs string         // the address with runs that only read logs, "" if the list has them
	Kept     []widget.Named // filters without a form field
	Since    string         // in words, "" without a limit
	History  string         // JSON of the samples, "" if the reader may not see them
	Submits  bool           // the reader may submit a script
}

// Filtered reports whether the list may omit runs.
func (o overview) Filtered() bool {
	return o.State != "" || o.Project != "" || narrow(o.Filter)
}

func queues(now *snapshot.Snapshot) (lines []snapshot.Queue) {
	nodes := 0
	var depths []int
	for _, dc := range now.Queues {
		nodes += len(dc.Queues)
		for _, q := range dc.Queues {
			depths = append(depths, snapshot.Queue{QueueDepth: q}.Open())
		}
	}
	least, ties := 0, 0 // minimum depth of a shown node, and the number of nodes with exactly this depth that fit
	if slices.SortFunc(depths, func(a, b int) int { return b - a }); nodes > quietNodes {
		least = max(depths[quietNodes-1], 1)
		ties = quietNodes - slices.IndexFunc(depths, func(n int) bool { return n <= least })
	}
	for _, dc := range now.Queues {
		rest := snapshot.Queue{Datacenter: dc.Datacenter, Name: dc.Name, Error: dc.Error}
		for _, q := range dc.Queues {
			line := snapshot.QueueOf(now, dc, q)
			switch {
			case nodes > quietNodes && line.Open() == 0:
				rest.Idle++
				continue
			case nodes > quietNodes && (line.Open() < least || line.Open() == least && ties == 0):
				rest.Busy++
				continue
			case line.Open() == least:
				ties--
			}
			lines = append(lines, line)
		}
		if rest.Error != nil || rest.Idle+rest.Busy > 0 {
			lines = append(lines, rest)
		}
	}
	return lines
}

// runRow is a row of the list of runs.
type runRow struct {
	ledger.Run
	DatacenterName string
	Calls          progress
	Unheard        *snapshot.Unheard // an unheard node with a running call, or nil; the state of the call is unknown
	OfProject      string            // address of the list of runs of its project
	OfSigner       string            // address of the list of runs of its signer
}

func (r runRow) Key() string { return string(r.ID) }

// Took returns the duration of the run, 0 if it has not started or not ended.
func (r runRow) Took() time.Duration { return took(r.Run) }

func took(r ledger.Run) time.Duration {
	if r.Accepted.IsZero() || r.Ended.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Accepted)
}

func idsOf(runs []ledger.Run) []writ.RunID {
	ids := make([]writ.RunID, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	return ids
}

// addRuns adds the list of runs and the links to more of them.
func (d *ListPages) addRuns(
	ctx context.Context, own *url.URL, p *page.Page, now *snapshot.Snapshot, filter ledger.RunFilter,
) error {
	list, err := d.Ledger.Runs(ctx, filter, ledger.Page{Limit: maxRuns, Cursor: own.Query().Get(page.CursorParam)})
	if err != nil {
		return err
	}
	calls, err := d.Ledger.CountCalls(ctx, idsOf(list.Items)...)
	if err != nil {
		return err
	}
	rows := make([]runRow, len(list.Items))
	unheardRuns, err := unheardByRun(ctx, d.Source, now, list.Items...)
	if err != nil {
		return err
	}
	for i, run := range list.Items {
		unheardCalls := unheardRuns[run.ID]
		rows[i] = runRow{
			Run: run, DatacenterName: now.Datacenter(run.Datacenter).Name,
			Calls: unheardCalls.progress(progressOf(calls[run.ID])), Unheard: unheardCalls.first,
			OfProject: page.Address(own, "project", string(run.Project)), OfSigner: page.Address(own, "signer", run.Signer),
		}
	}
	page.Add(p, page.Part{ID: "runs", OfLedger: true}, rows...)
	page.Add(p, page.Part{ID: "pager", OfLedger: true}, page.PagerOf(own, list.Next, "Older runs"))
	return nil
}

// stateCounts links to the runs in each state, and to the stuck runs.
func stateCounts(own *url.URL, n numbers) []page.Count {
	all := page.Counts(own, "state", ledger.States, n.states)
	address := "/stuck"
	if _, query, ok := strings.Cut(page.Address(own, "state", ""), "?"); ok {
		address += "?" + query
	}
	all = append(all, page.Count{Name: "stuck", N: n.stuck, Address: address})
	for i := range all {
		all[i].IsState = true
	}
	return all
}
