package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
)

const (
	maxRuns = 50
	// quietNodes is the number of nodes in the table of depths above which it omits idle nodes, and then those with the
	// fewest calls.
	quietNodes = 24
)

// listPages serves the lists of runs: all, failed and stuck ones.
type listPages struct {
	*source
	Ends       func(ctx context.Context) []identity.Expiry // lists the expiring items; may be nil
	LedgerDown func() bool                                 // reports an unusable ledger; may be nil

	counted counted
}

func (d *listPages) routes() []route {
	return []route{
		{"/", d.overview, true},
		{"/stuck", d.stuck, true},
		{"/failures", d.failures, true},
	}
}

// expiring lists the expiring items.
func (d *listPages) expiring(ctx context.Context) []identity.Expiry {
	if d.Ends == nil {
		return nil
	}
	return d.Ends(ctx)
}

// overview is the first page: the state of everything, and the newest runs.
func (d *listPages) overview(ctx context.Context, r *http.Request, quiet bool) (*page, error) {
	q := r.URL.Query()
	elsewhere, err := d.search(ctx, r.URL)
	if elsewhere != "" || err != nil {
		return &page{Redirect: elsewhere}, err
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
	now, err := d.moment(ctx)
	if err != nil {
		return nil, err
	}
	reader := d.Reader(ctx)
	data := overview{
		Filter: filter, Project: writ.ProjectID(q.Get("project")), State: q.Get("state"),
		All: with(r.URL, "state", "", "project", "", "signer", "", "datacenter", "", "script", "", "deployment", "",
			textParam, "", sinceParam, "", failureParam, "", operationParam, ""),
		Datacenters: now.datacenters, Projects: d.projectsOf(ctx, now), Kept: kept(q), Since: spanNames[q.Get(sinceParam)],
	}
	data.Commands, data.Submits = manyCommands(q, filter, now, reader), reader.maySubmit(data.Projects)
	p := &page{Title: "Runs", Nav: "runs"}
	n, err := d.numbersOf(ctx, r.URL, now, filter)
	if err != nil {
		return nil, err
	}
	add(p, part{ID: "counts"}, stateCounts(r.URL, n)...)
	addAttention(p, attentionOf(now, reader, d.expiring(ctx), d.LedgerDown != nil && d.LedgerDown()))
	addHolds(p, reader, now)
	if reader.All { // nodes and queues belong to all projects together
		if data.History, err = d.addDepths(p, now); err != nil {
			return nil, err
		}
		add(p, part{ID: "boot"}, bootCounts(now)...)
	}
	p.Body = data
	if quiet && now.isSteady() {
		return p, nil
	}
	return p, d.addRuns(ctx, r.URL, p, now, filter)
}

// idPrefix matches a prefix of a run id, as in commands.
var idPrefix = regexp.MustCompile(`^[a-z2-7]{4,26}$`)

// search returns the address for a text in the signer field, "" if it is the signer of runs. The field also accepts the
// name of a script, the id of a run or a prefix of it, and any text in runs. A signer whose name looks like a prefix
// has priority.
func (d *listPages) search(ctx context.Context, own *url.URL) (elsewhere string, err error) {
	text := strings.TrimSpace(own.Query().Get("signer"))
	switch id := writ.RunID(text); {
	case text == "":
		return "", nil
	case id.Valid():
		if _, err := d.runOf(ctx, id); err == nil {
			return "/runs/" + text, nil
		}
	case strings.HasSuffix(text, ".tengo"):
		return with(own, "signer", "", textParam, "", "script", text), nil
	}
	projects, err := d.Reader(ctx).selects("")
	if err != nil {
		return "", err
	}
	signed, err := d.Ledger.Runs(ctx, ledger.RunFilter{Projects: projects, Signer: text}, ledger.Page{Limit: 1})
	if err != nil || len(signed.Items) > 0 {
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
	return with(own, "signer", "", textParam, text), nil
}

// addDepths adds the open calls of all queues, and returns the points of the chart as JSON.
func (d *listPages) addDepths(p *page, now *moment) (history string, err error) {
	add(p, part{ID: "depth"}, depthOf(now))
	add(p, part{ID: "queues"}, queues(now)...)
	points, err := json.Marshal(d.past.samples())
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
	Commands    []command // for all runs of the list
	Filter      ledger.RunFilter
	Project     writ.ProjectID // "" for all
	State       string
	All         string // the address without filters
	Projects    []identity.Project
	Datacenters []api.Datacenter
	Kept        []value // filters without a form field
	Since       string  // in words, "" without a limit
	History     string  // JSON of the samples, "" if the reader may not see them
	Submits     bool    // the reader may submit a script
}

// Filtered reports whether the list may omit runs.
func (o overview) Filtered() bool {
	return o.State != "" || o.Project != "" || narrow(o.Filter)
}

func queues(now *moment) (lines []queue) {
	nodes := 0
	var depths []int
	for _, dc := range now.queues {
		nodes += len(dc.Queues)
		for _, q := range dc.Queues {
			depths = append(depths, queue{QueueDepth: q}.Open())
		}
	}
	least, ties := 0, 0 // minimum depth of a shown node, and how many nodes with exactly this depth fit
	if slices.SortFunc(depths, func(a, b int) int { return b - a }); nodes > quietNodes {
		least = max(depths[quietNodes-1], 1)
		ties = quietNodes - slices.IndexFunc(depths, func(n int) bool { return n <= least })
	}
	for _, dc := range now.queues {
		rest := queue{Datacenter: dc.Datacenter, Name: dc.Name, Error: dc.Error}
		for _, q := range dc.Queues {
			line := queueOf(now, dc, q)
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
	Unheard        *unheard // the node of a call whose state is therefore unknown, otherwise nil
	OfProject      string   // address of the list of runs of its project
	OfSigner       string   // address of the list of runs of its signer
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
func (d *listPages) addRuns(ctx context.Context, own *url.URL, p *page, now *moment, filter ledger.RunFilter) error {
	list, err := d.Ledger.Runs(ctx, filter, ledger.Page{Limit: maxRuns, Cursor: own.Query().Get(cursorParam)})
	if err != nil {
		return err
	}
	calls, err := d.Ledger.CountCalls(ctx, idsOf(list.Items)...)
	if err != nil {
		return err
	}
	rows := make([]runRow, len(list.Items))
	unheardRuns, err := unheardRuns(ctx, d.source, now, list.Items...)
	if err != nil {
		return err
	}
	for i, run := range list.Items {
		unheardCalls := unheardRuns[run.ID]
		rows[i] = runRow{
			Run: run, DatacenterName: now.datacenter(run.Datacenter).Name,
			Calls: unheardCalls.progress(progressOf(calls[run.ID])), Unheard: unheardCalls.first,
			OfProject: with(own, "project", string(run.Project)), OfSigner: with(own, "signer", run.Signer),
		}
	}
	add(p, part{ID: "runs", OfLedger: true}, rows...)
	add(p, part{ID: "pager", OfLedger: true}, pagerOf(own, list.Next, "Older runs"))
	return nil
}

// stateCounts links to the runs in each state, and to the stuck runs.
func stateCounts(own *url.URL, n numbers) []count {
	all := countsOf(own, "state", ledger.States, n.states)
	address := "/stuck"
	if _, query, ok := strings.Cut(with(own, "state", ""), "?"); ok {
		address += "?" + query
	}
	all = append(all, count{Name: "stuck", N: n.stuck, Address: address})
	for i := range all {
		all[i].IsState = true
	}
	return all
}
