package runs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/remedy"
	"writ/identity"
	"writ/ledger"
)

// maxCalls limits the calls of a run on a page, next to its script. The script and the failure link only to the calls
// of the first page.
const maxCalls = 50

// RunPages serves the pages of one run.
type RunPages struct {
	*snapshot.Source
	texts texts
}

// Routes lists the pages about one run.
func (d *RunPages) Routes() []page.Route {
	return []page.Route{
		{Pattern: "/runs/{id}", View: d.run, Live: true},
		{Pattern: "/runs/{id}/values", View: d.values},
		{Pattern: "/runs/{id}/log", View: d.log},
		{Pattern: "/runs/{id}/timeline", View: d.timeline},
	}
}

// run is the page of one run: its state, why it failed, and its calls on a timeline.
func (d *RunPages) run(ctx context.Context, r *http.Request, quiet bool) (*page.Page, error) {
	run, err := d.runIn(ctx, r)
	if err != nil {
		return nil, err
	}
	id := run.ID
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := d.Ledger.CountCalls(ctx, id)
	if err != nil {
		return nil, err
	}
	why, err := d.LiveView.Why(ctx, run)
	if err != nil {
		return nil, err
	}
	head := runHead{Run: run, DatacenterName: now.Datacenter(run.Datacenter).Name, Calls: progressOf(counts[id])}
	head.Controls = d.Reader(ctx).Allows(identity.ActionControlRuns, run.Project)
	head.Helps = now.Remedy(d.Reader(ctx), run, why[id])
	head.Why = snapshot.SentenceBeside(why[id], head.Helps)
	unheardRuns, err := unheardByRun(ctx, d.Source, now, run)
	if err != nil {
		return nil, err
	}
	head.Calls, head.Unheard = unheardRuns[id].progress(head.Calls), unheardRuns[id].first
	if run.Failure != nil {
		head.At = d.lineOf(ctx, run)
	}
	p := &page.Page{Title: run.Script, Nav: "runs", Body: runPage{}}
	page.Add(p, page.Part{ID: "head"}, head)
	if quiet && now.IsSteady() {
		return p, nil
	}
	page.Add(p, page.Part{ID: "output", OfLedger: true}, d.outputOf(ctx, run))
	if err := d.addSource(ctx, p, now, run); err != nil {
		return nil, err
	}
	return p, d.addCalls(ctx, r.URL, p, now, run)
}

// runIn returns the run that the address of a request names.
func (d *RunPages) runIn(ctx context.Context, r *http.Request) (ledger.Run, error) {
	id := writ.RunID(chi.URLParam(r, "id"))
	if !id.Valid() {
		return ledger.Run{}, writ.Errorf(writ.CodeNotFound, "%q is not the id of a run", id).
			WithHint("an id has 26 lower-case letters and digits")
	}
	return d.RunOf(ctx, id)
}

// addCalls adds the list of calls with its timeline, and the links to more calls.
func (d *RunPages) addCalls(
	ctx context.Context, own *url.URL, p *page.Page, now *snapshot.Snapshot, run ledger.Run,
) error {
	calls, err := d.Ledger.Calls(ctx, run.ID, ledger.Page{Limit: maxCalls, Cursor: own.Query().Get(page.CursorParam)})
	if err != nil {
		return err
	}
	line := scaleOf(run, calls.Items, now.At)
	line.Attempts = "/runs/" + string(run.ID) + "/timeline"
	rows := make([]callRow, len(calls.Items))
	for i, c := range calls.Items {
		rows[i] = callRow{
			Call: c, scale: line, Fatal: run.Failure != nil && run.Failure.Seq == c.Seq,
			Unheard: now.UnheardCall(c, run.Datacenter, d.Reader(ctx)),
		}
	}
	page.Add(p, page.Part{ID: "scale", OfLedger: true}, line)
	page.Add(p, page.Part{ID: "calls", OfLedger: true}, rows...)
	page.Add(p, page.Part{ID: "pager", OfLedger: true}, page.PagerOf(own, calls.Next, "More calls"))
	return nil
}

// runHead is the upper part of the page of one run.
type runHead struct {
	ledger.Run
	DatacenterName string
	Calls          progress
	Why            string            // why the run waits
	Helps          remedy.Command    // command that ends the wait, or the zero Command
	Unheard        *snapshot.Unheard // an unheard node with a running call, or nil; the state of the call is unknown
	At             string            // id of the source line of the failure, "" if the page does not show it
	Controls       bool              // the reader may cancel and resume it
}

// Listed reports whether the first page of calls includes a call.
func (h runHead) Listed(seq int) bool { return seq > 0 && seq <= maxCalls }

// Key is constant, because its part of the page has no other element.
func (runHead) Key() string { return "head" }

// Resumable reports whether a resume is permitted and can help, as far as the coordinator knows.
func (h runHead) Resumable() bool {
	return h.State == ledger.State(writ.RunFailed) && remedy.ResumeHelps(h.Failure, h.Deadline, time.Now())
}

// Took returns the duration of the run, 0 if it has not started or not ended.
func (h runHead) Took() time.Duration { return took(h.Run) }

// scale is the time axis of the calls on a page.
type scale struct {
	From time.Time
	Span int64 // milliseconds, not 0
	Open bool  // the run is open: the end is rounded up, and a script in the browser moves it

	Attempts string // address of the page with each attempt, "" on that page
}

// Key is constant, because its part of the page has no other element.
func (scale) Key() string { return "scale" }

// Length returns the span as a duration.
func (s scale) Length() time.Duration { return time.Duration(s.Span) * time.Millisecond }

// scaleOf returns the axis from the acceptance of a run to its end, or to a later time from the clock of a node. The
// length of an open axis is rounded up to 1, 2, 4, … seconds, so that pieces do not change with the time of day.
func scaleOf(run ledger.Run, calls []writ.Call, now time.Time) scale {
	s := scale{From: run.Accepted, Open: run.Ended.IsZero()}
	end := run.Ended
	if s.Open {
		end = now
	}
	for _, c := range calls {
		for _, t := range []time.Time{c.Planned, c.Queued, c.Started, c.Ended} {
			if t.After(end) {
				end = t
			}
		}
	}
	s.Span = max(end.Sub(s.From).Milliseconds(), 1)
	if s.Open {
		open := int64(1000)
		for open < s.Span {
			open *= 2
		}
		s.Span = open
	}
	return s
}

// callRow is a row of the list of calls.
type callRow struct {
	writ.Call
	scale
	Fatal   bool              // the failure of this call ended the run
	Unheard *snapshot.Unheard // the node of the call if it is unheard, otherwise nil
}

// Shown returns the state of the call, or unknown if its node is unheard: the call may have stopped.
func (c callRow) Shown() writ.CallState {
	if c.Unheard != nil {
		return snapshot.StateUnknown
	}
	return c.State
}

func (c callRow) Key() string { return fmt.Sprint(c.Seq) }

// Took returns the time that the node worked on the call, 0 if it has not started or not ended.
func (c callRow) Took() time.Duration {
	if c.Started.IsZero() || c.Ended.IsZero() {
		return 0
	}
	return max(c.Ended.Sub(c.Started), time.Millisecond)
}

// bar is a section of the time axis, in milliseconds.
type bar struct {
	Kind        string // "planned", "queued", or the state of the work
	From, Width int64
	Open        bool // not ended yet
}

// Striped reports whether the work of the bar ended without success.
func (b bar) Striped() bool {
	return slices.Contains([]string{"failed", "cancelled", "expired"}, b.Kind)
}

// legendLine is a shape of bars with its meaning.
type legendLine struct {
	Bars []bar
	Text string
}

func legend() (lines []legendLine) {
	for _, l := range [][2]string{
		{"planned", "waits for others"}, {"queued", "in the queue"}, {"running", "runs"}, {"succeeded", "succeeded"},
		{"failed", "failed"},
	} {
		lines = append(lines, legendLine{[]bar{{Kind: l[0], Width: 10}}, l[1]})
	}
	return lines
}

// Bars returns the phases of the call: waiting for other calls, queued for its node, and work.
func (c callRow) Bars() []bar {
	return c.scale.bars(0, c.Ended, stretch{"planned", c.Planned}, stretch{"queued", c.Queued},
		stretch{string(c.Shown()), c.Started})
}

// stretch is a phase with its start, the zero time if it did not start.
type stretch struct {
	kind string
	from time.Time
}

// bars draws consecutive phases until the time `ended`, or until now if `ended` is zero. Because the clocks of nodes
// differ, a phase may start before the previous phase ends. Its bar then starts at that end. The first bar starts at
// `last` or later.
func (s scale) bars(last int64, ended time.Time, of ...stretch) (bars []bar) {
	const endless = 1 << 40 // beyond every axis; the picture clips it
	for i, m := range of {
		if m.from.IsZero() {
			continue
		}
		b := bar{Kind: m.kind, From: max(m.from.Sub(s.From).Milliseconds(), last)}
		end := ended
		for _, later := range of[i+1:] {
			if !later.from.IsZero() {
				end = later.from
				break
			}
		}
		if end.IsZero() {
			b.Width, b.Open = endless, true
		} else {
			b.Width = max(end.Sub(s.From).Milliseconds()-b.From, 0)
		}
		last = b.From + b.Width
		bars = append(bars, b)
	}
	return bars
}

// Explain returns the meaning of the error code.
func (c callRow) Explain() string { return c.Error.Code.Info().Explain() }
