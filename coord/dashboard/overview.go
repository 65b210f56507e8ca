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
	maxRuns  = 50
	maxNodes = 50
	// quietNodes is how many nodes the table of depths has before it leaves out those that have nothing to do, and then those that have least.
	quietNodes = 24
)

// overview is the first page: what there is, what waits, and the newest runs.
func (d *Dashboard) overview(ctx context.Context, r *http.Request, quiet bool) (*page, error) {
	q := r.URL.Query()
	elsewhere, err := d.search(ctx, r.URL)
	if elsewhere != "" || err != nil {
		return &page{elsewhere: elsewhere}, err
	}
	filter, err := d.filtersOf(ctx, q)
	if err != nil {
		return nil, err
	}
	if s := ledger.State(q.Get("state")); s != "" {
		if !slices.Contains(ledger.States, s) {
			return nil, writ.Errorf(writ.CodeBadRequest, "there is no state %q", s).WithHint("there are %s", states())
		}
		filter.States = []ledger.State{s}
	}
	now, err := d.moment(ctx)
	if err != nil {
		return nil, err
	}
	reader := d.Reader(ctx)
	data := overview{
		Filter: filter, Project: writ.ProjectID(q.Get("project")), State: q.Get("state"), All: with(r.URL, "state", "", "project", "", "signer", "", "datacenter", "", "script", "", "deployment", "", textParam, "", sinceParam, "", failureParam, "", operationParam, ""),
		Datacenters: now.datacenters, Projects: reader.projectsOf(now), Kept: kept(q), Since: spanNames[q.Get(sinceParam)],
	}
	data.Commands, data.Submits = manyCommands(q, filter, now, reader), reader.maySubmit(data.Projects)
	p := &page{Title: "Runs", Nav: "runs"}
	n, err := d.numbersOf(ctx, r.URL, now, filter)
	if err != nil {
		return nil, err
	}
	add(p, part{id: "counts"}, counts(r.URL, n.states, n.stuck)...)
	addAttention(p, attentionOf(now, reader, d.ends(ctx), d.LedgerDown != nil && d.LedgerDown()))
	addHolds(p, reader, now)
	if reader.All { // nodes and queues are of all projects together
		if data.History, err = d.addDepths(p, now); err != nil {
			return nil, err
		}
		add(p, part{id: "boot"}, bootCounts(now)...)
	}
	p.body = data
	if quiet && now.isSteady() {
		return p, nil
	}
	return p, d.addRuns(ctx, r.URL, p, now, filter)
}

// selects returns the projects of a list that asks for one, or with "" for all that the reader may see. None stand for all that there are, so only a
// reader of all gets none.
func (r Reader) selects(project writ.ProjectID) ([]writ.ProjectID, error) {
	switch {
	case project != "" && r.Reads(project):
		return []writ.ProjectID{project}, nil
	case project != "":
		return nil, ledger.NotThere("project", project)
	case !r.All && len(r.Projects) == 0:
		return nil, writ.Errorf(writ.CodeLoginRequired, "cannot list runs: it is not known for whom").WithHint("log in again: writ login --web")
	case !r.All:
		return r.Projects, nil
	}
	return nil, nil
}

// idPrefix is what the beginning of an id looks like that commands take too.
var idPrefix = regexp.MustCompile(`^[a-z2-7]{4,26}$`)

// search returns where what was typed into the field of signers leads, "" if it is a signer of runs: the field also takes the name of a script, the id
// of a run or its beginning, and any text that runs are found by. A signer whose name is such a beginning stays one.
func (d *Dashboard) search(ctx context.Context, own *url.URL) (elsewhere string, err error) {
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

// addDepths adds how much is open everywhere, and returns the points of the chart as JSON.
func (d *Dashboard) addDepths(p *page, now *moment) (history string, err error) {
	add(p, part{id: "depth"}, depthOf(now))
	add(p, part{id: "queues"}, queues(now)...)
	points, err := json.Marshal(d.past.samples())
	if err != nil {
		return "", fmt.Errorf("encode samples: %w", err)
	}
	return string(points), nil
}

// states names all states in a sentence.
func states() string {
	names := make([]string, len(ledger.States))
	for i, s := range ledger.States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// overview is what the first page shows besides its parts.
type overview struct {
	Commands    []command // about all runs that the list selects
	Filter      ledger.RunFilter
	Project     writ.ProjectID // "" for all
	State       string
	All         string // the address without filters
	Projects    []identity.Project
	Datacenters []api.Datacenter
	Kept        []value // filters that the form has no field for
	Since       string  // in words, "" if the list goes back as far as there is something
	History     string  // JSON of the samples, "" for who may not see them
	Submits     bool    // the reader may hand in a script
}

// Filtered reports whether the list may leave runs out.
func (o overview) Filtered() bool {
	return o.State != "" || o.Project != "" || narrow(o.Filter)
}

// count is how many runs are in a state, or stuck.
type count struct {
	State   ledger.State
	N       int
	Address string // of the list of these
	Chosen  bool
}

// Key is the state.
func (c count) Key() string { return string(c.State) }

func counts(own *url.URL, of map[ledger.State]int, stuck int) []count {
	chosen := ledger.State(own.Query().Get("state"))
	all := make([]count, len(ledger.States))
	for i, s := range ledger.States {
		c := count{State: s, N: of[s], Chosen: s == chosen, Address: with(own, "state", string(s))}
		if c.Chosen {
			c.Address = with(own, "state", "")
		}
		all[i] = c
	}
	address := "/stuck"
	if _, query, ok := strings.Cut(with(own, "state", ""), "?"); ok {
		address += "?" + query
	}
	return append(all, count{State: "stuck", N: stuck, Address: address})
}

// depth is how many calls are open everywhere.
type depth struct {
	Running, Queued, Planned int
	Unheard                  int // were running on nodes that are not heard
	Unknown                  int // datacenters that do not answer
}

// Key of the only piece of its part.
func (depth) Key() string { return "depth" }

func depthOf(now *moment) (sum depth) {
	for _, dc := range now.queues {
		if dc.Error != nil {
			sum.Unknown++
		}
		for _, q := range dc.Queues {
			sum.add(now, dc.Datacenter, q)
			sum.Queued += q.Queued
			sum.Planned += q.Planned
		}
	}
	return sum
}

// add counts the running calls of a queue.
func (d *depth) add(now *moment, datacenter writ.DatacenterID, q writ.QueueDepth) {
	if _, is := now.unheardNode(datacenter, q.Node); is {
		d.Unheard += q.Running
		return
	}
	d.Running += q.Running
}

// queue is a line of the table of depths: a node, or a datacenter that could not be asked, or one whose idle nodes are left out.
type queue struct {
	writ.QueueDepth
	Datacenter writ.DatacenterID
	Name       string   // of the datacenter
	Unheard    *unheard // the node, if it is not heard, otherwise nil
	Error      *writ.Error
	Idle       int // nodes that are left out, as they have nothing to do
	Busy       int // nodes that are left out, as others have more to do
}

// Key tells the line from all others. What was not placed yet has no node.
func (q queue) Key() string {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return string(q.Datacenter)
	}
	return string(q.Datacenter) + "/" + string(q.Node)
}

// Open is how many calls the node has.
func (q queue) Open() int { return q.Running + q.Queued + q.Planned }

// queueOf returns the line of a queue, with why its node is not heard.
func queueOf(now *moment, dc api.DatacenterQueues, q writ.QueueDepth) queue {
	line := queue{QueueDepth: q, Datacenter: dc.Datacenter, Name: dc.Name}
	if u, is := now.unheardNode(dc.Datacenter, q.Node); is {
		line.Unheard = &u
	}
	return line
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
	least, ties := 0, 0 // that a node must have to have a line of its own, and how many of those that have just that
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

// runRow is a line of the list of runs.
type runRow struct {
	ledger.Run
	DatacenterName string
	Calls          progress
	Unheard        *unheard // the node of a call, if its state is unknown because of that, otherwise nil
	OfProject      string   // address of the list of the runs of its project
	OfSigner       string   // and of those of its signer
}

// Key is the run's id.
func (r runRow) Key() string { return string(r.ID) }

// Took is how long the run took, 0 if it never began or has not ended.
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

// addRuns adds the list of runs and the way to more of them.
func (d *Dashboard) addRuns(ctx context.Context, own *url.URL, p *page, now *moment, filter ledger.RunFilter) error {
	list, err := d.Ledger.Runs(ctx, filter, ledger.Page{Limit: maxRuns, Cursor: own.Query().Get(cursorParam)})
	if err != nil {
		return err
	}
	calls, err := d.Ledger.CountCalls(ctx, idsOf(list.Items)...)
	if err != nil {
		return err
	}
	rows := make([]runRow, len(list.Items))
	unheardRuns, err := d.unheardRuns(ctx, now, list.Items...)
	if err != nil {
		return err
	}
	for i, run := range list.Items {
		unheardCalls := unheardRuns[run.ID]
		rows[i] = runRow{
			Run: run, DatacenterName: now.datacenter(run.Datacenter).Name, Calls: unheardCalls.progress(progressOf(calls[run.ID])), Unheard: unheardCalls.first,
			OfProject: with(own, "project", string(run.Project)), OfSigner: with(own, "signer", run.Signer),
		}
	}
	add(p, part{id: "runs", ofLedger: true}, rows...)
	add(p, part{id: "pager", ofLedger: true}, pagerOf(own, list.Next, "Older runs"))
	return nil
}

// progress counts the calls of a run by how they stand.
type progress struct{ Succeeded, Failed, Running, Open int }

func progressOf(counts map[writ.CallState]int) (p progress) {
	for state, n := range counts {
		switch {
		case state == writ.CallSucceeded:
			p.Succeeded += n
		case state.Ended():
			p.Failed += n
		case state == writ.CallRunning:
			p.Running += n
		default:
			p.Open += n
		}
	}
	return p
}

// Total is how many calls the run asked for until now.
func (p progress) Total() int { return p.Succeeded + p.Failed + p.Running + p.Open }

// FailedFrom and RunningFrom are where these begin on a bar as long as Total.

func (p progress) FailedFrom() int  { return p.Succeeded }
func (p progress) RunningFrom() int { return p.Succeeded + p.Failed }
