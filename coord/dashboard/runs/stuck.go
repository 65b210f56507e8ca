package runs

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/dashboard/widget"
	"writ/coord/remedy"
	"writ/identity"
	"writ/ledger"
)

// silences lists the durations that the page of stuck runs offers.
var silences = []string{"1m", "5m", "15m", "1h", "6h", "24h"}

const silentParam = "for"

// filtersOf parses the filter of runs in an address, except for their states. All selected runs are readable.
func (d *ListPages) filtersOf(ctx context.Context, q url.Values) (ledger.RunFilter, error) {
	projects, err := d.Reader(ctx).Selects(writ.ProjectID(q.Get("project")))
	if err != nil {
		return ledger.RunFilter{}, err
	}
	text := q.Get(textParam)
	if utf8.RuneCountInString(text) > ledger.MaxText {
		return ledger.RunFilter{}, writ.Errorf(writ.CodeBadRequest, "%s is longer than %d characters", textParam,
			ledger.MaxText)
	}
	since, err := sinceOf(q.Get(sinceParam), time.Now())
	return ledger.RunFilter{
		Since: since, Failure: writ.Code(q.Get(failureParam)), Operation: q.Get(operationParam),
		Datacenter: writ.DatacenterID(q.Get("datacenter")), Signer: q.Get("signer"), Script: q.Get("script"),
		Deployment: q.Get("deployment"), Text: text, Projects: projects,
		WithoutLogs: q.Get(logsParam) == "" && q.Get("script") == "",
	}, err
}

// kept returns the filters for the hidden fields of a form. The arguments after q name additional filters.
func kept(q url.Values, besides ...string) (all []widget.Named) {
	for _, name := range append([]string{"script", "deployment", sinceParam, failureParam, operationParam, logsParam},
		besides...) {
		if v := q.Get(name); v != "" {
			all = append(all, widget.Named{Name: name, Text: v})
		}
	}
	return all
}

// stuck is the page of open runs without recent events, the oldest first.
func (d *ListPages) stuck(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	q := r.URL.Query()
	filter, err := d.filtersOf(ctx, q)
	if err != nil {
		return nil, err
	}
	data := stuckPage{For: q.Get(silentParam), Silences: silences, Kept: kept(q, "signer", textParam)}
	after := snapshot.StuckAfter
	if data.For == "" {
		data.For = "5m"
	} else if after, err = time.ParseDuration(data.For); err != nil || after < time.Second || after > 366*24*time.Hour {
		return nil, writ.Errorf(writ.CodeBadRequest, "%s must be a duration from 1s to 8784h such as 5m, 1h or 24h; got %q",
			silentParam, data.For)
	}
	if !slices.Contains(silences, data.For) {
		data.Silences = append([]string{data.For}, silences...)
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data.Selection = d.SelectionOf(ctx, now, q)
	filter.Silent, filter.Oldest = now.At.Add(-after).Truncate(time.Second), true
	p := &page.Page{Title: "Stuck runs", Nav: "stuck", Body: data}
	snapshot.AddHolds(p, d.Reader(ctx), now)
	return p, d.addStuck(ctx, r.URL, p, now, filter, data.For)
}

// stuckPage is the body of the page, without its parts.
type stuckPage struct {
	snapshot.Selection
	For      string
	Silences []string
	Kept     []widget.Named // further filters of the address
}

// stuckTotal is the number of runs on all pages of the list.
type stuckTotal struct {
	N   int
	For string
}

// Key is constant, because its part of the page has no other element.
func (stuckTotal) Key() string { return "total" }

// stuckRow is a row of the list of stuck runs.
type stuckRow struct {
	ledger.Run
	DatacenterName string
	Heard          time.Time // time of the last event, or of the submission if that event was pruned
	Why            string
	Helps          remedy.Command // command that ends the wait, or the zero Command
	Controls       bool
}

func (r stuckRow) Key() string { return string(r.ID) }

// Cancels reports whether the page offers to cancel the run. A run that its datacenter does not have yet cannot be
// cancelled; it expires.
func (r stuckRow) Cancels() bool { return r.Controls && r.ID.Valid() && r.State != ledger.StateWaiting }

// Waits reports whether the run waits for its datacenter.
func (r stuckRow) Waits() bool { return r.State == ledger.StateWaiting }

func (d *ListPages) addStuck(
	ctx context.Context, own *url.URL, p *page.Page, now *snapshot.Snapshot, filter ledger.RunFilter, silence string,
) error {
	counts, err := d.Ledger.CountRuns(ctx, filter)
	if err != nil {
		return err
	}
	page.Add(p, page.Part{ID: "total"}, stuckTotal{sumOf(counts.Total()), silence})
	list, err := d.Ledger.Runs(ctx, filter, ledger.Page{Limit: maxRuns, Cursor: own.Query().Get(page.CursorParam)})
	if err != nil {
		return err
	}
	heard, err := d.Ledger.LastHeard(ctx, idsOf(list.Items)...)
	if err != nil {
		return err
	}
	why, err := d.LiveView.Why(ctx, list.Items...)
	if err != nil {
		return err
	}
	reader := d.Reader(ctx)
	rows := make([]stuckRow, len(list.Items))
	for i, run := range list.Items {
		rows[i] = stuckRow{
			Run: run, DatacenterName: now.Datacenter(run.Datacenter).Name, Heard: heard[run.ID],
			Helps: now.Remedy(reader, run, why[run.ID]), Controls: reader.Allows(identity.ActionControlRuns, run.Project),
		}
		rows[i].Why = snapshot.SentenceBeside(why[run.ID], rows[i].Helps)
		if rows[i].Heard.IsZero() {
			rows[i].Heard = run.Created
		}
	}
	page.Add(p, page.Part{ID: "stuck"}, rows...)
	page.Add(p, page.Part{ID: "pager"}, page.PagerOf(own, list.Next, "More runs"))
	return nil
}

func sumOf(counts map[ledger.State]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
