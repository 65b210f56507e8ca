package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/reasons"
	"writ/identity"
	"writ/ledger"
)

// maxCalls is how many calls of a run stand on a page, beside its script. Links within the page lead to the first ones only.
const maxCalls = 50

// run is the page of one run: how it stands, why it failed, and its calls on a line of time.
func (d *Dashboard) run(ctx context.Context, r *http.Request, quiet bool) (*page, error) {
	id := writ.RunID(chi.URLParam(r, "id"))
	if !id.Valid() {
		return nil, noRunID(id)
	}
	run, err := d.runOf(ctx, id)
	if err != nil {
		return nil, err
	}
	now, err := d.moment(ctx)
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
	head := runHead{Run: run, DatacenterName: now.datacenter(run.Datacenter).Name, Calls: progressOf(counts[id]), Why: why[id]}
	head.Controls = d.Reader(ctx).may(identity.ActionControlRuns, run.Project)
	head.Helps = now.helps(d.Reader(ctx), run, head.Why)
	head.Why = reasons.Without(head.Why, head.Helps)
	unheardRuns, err := d.unheardRuns(ctx, now, run)
	if err != nil {
		return nil, err
	}
	head.Calls, head.Unheard = unheardRuns[id].progress(head.Calls), unheardRuns[id].first
	if run.Failure != nil {
		head.At = d.lineOf(ctx, run)
	}
	p := &page{Title: run.Script, Nav: "runs", body: runPage{}}
	add(p, part{id: "head"}, head)
	if quiet && now.isSteady() {
		return p, nil
	}
	add(p, part{id: "output", ofLedger: true}, d.outputOf(ctx, run))
	if err := d.addSource(ctx, p, now, run); err != nil {
		return nil, err
	}
	return p, d.addCalls(ctx, r.URL, p, now, run)
}

// addCalls adds the list of calls, the line of time above it, and the way to more of them.
func (d *Dashboard) addCalls(ctx context.Context, own *url.URL, p *page, now *moment, run ledger.Run) error {
	calls, err := d.Ledger.Calls(ctx, run.ID, ledger.Page{Limit: maxCalls, Cursor: own.Query().Get(cursorParam)})
	if err != nil {
		return err
	}
	line := scaleOf(run, calls.Items, now.at)
	line.Attempts = "/runs/" + string(run.ID) + "/timeline"
	rows := make([]callRow, len(calls.Items))
	for i, c := range calls.Items {
		rows[i] = callRow{Call: c, scale: line, Fatal: run.Failure != nil && run.Failure.Seq == c.Seq, Unheard: now.unheardCall(c, run.Datacenter, d.Reader(ctx))}
	}
	add(p, part{id: "scale", ofLedger: true}, line)
	add(p, part{id: "calls", ofLedger: true}, rows...)
	add(p, part{id: "pager", ofLedger: true}, pagerOf(own, calls.Next, "More calls"))
	return nil
}

// runHead is the upper part of the page of a run.
type runHead struct {
	ledger.Run
	DatacenterName string
	Calls          progress
	Why            string   // it waits
	Helps          string   // the command against that, "" if there is none for the reader
	Unheard        *unheard // the node of a call, if its state is unknown because of that, otherwise nil
	At             string   // id of the line at which it failed, "" if the page does not have it
	Controls       bool     // the reader may cancel and resume it
}

// Listed reports whether the list of calls begins with those up to a number.
func (h runHead) Listed(seq int) bool { return seq > 0 && seq <= maxCalls }

// Key of the only piece of its part.
func (runHead) Key() string { return "head" }

// Open reports whether the run can still be cancelled.
func (h runHead) Open() bool {
	return h.State == ledger.State(writ.RunAccepted) || h.State == ledger.State(writ.RunRunning)
}

// Resumable reports whether a resume of the run is allowed and can help, by the knowledge of the coordinator.
func (h runHead) Resumable() bool {
	return h.State == ledger.State(writ.RunFailed) && reasons.ResumeHelps(h.Failure, h.Deadline, time.Now())
}

// Took is how long the run took, 0 if it never began or has not ended.
func (h runHead) Took() time.Duration { return took(h.Run) }

// scale is the line of time below which the calls of a page stand.
type scale struct {
	From time.Time
	Span int64 // milliseconds, not 0
	Open bool  // the line goes on: its end is rounded up, and a script moves it

	Attempts string // address of the page that shows each attempt, "" on that page
}

// Key of the only piece of its part.
func (scale) Key() string { return "scale" }

// Length is the span as people read it.
func (s scale) Length() time.Duration { return time.Duration(s.Span) * time.Millisecond }

// scaleOf returns the line from the acceptance of a run to its end, longer if the clock of a node says so. The end of a line that is
// open is a power of two, so that pieces need not change with the time of day.
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

// callRow is a line of the list of calls.
type callRow struct {
	writ.Call
	scale
	Fatal   bool     // it ended the run
	Unheard *unheard // its node, if the state of the call is unknown because of that, otherwise nil
}

// Shown is the state that the page shows: a call whose node is not heard may not run any more.
func (c callRow) Shown() writ.CallState {
	if c.Unheard != nil {
		return stateUnknown
	}
	return c.State
}

// Key is the call's number.
func (c callRow) Key() string { return fmt.Sprint(c.Seq) }

// Took is how long the node worked on it, 0 if it has not begun or not ended.
func (c callRow) Took() time.Duration {
	if c.Started.IsZero() || c.Ended.IsZero() {
		return 0
	}
	return max(c.Ended.Sub(c.Started), time.Millisecond)
}

// bar is a stretch of the line of time, in milliseconds.
type bar struct {
	Kind        string // "planned", "queued" or the state that the work is in or ended with
	From, Width int64
	Open        bool // it goes on
}

// Striped reports whether the bar is one of work that ended without success.
func (b bar) Striped() bool {
	return slices.Contains([]string{"failed", "cancelled", "expired"}, b.Kind)
}

// legendLine is a form of bars, and what it means.
type legendLine struct {
	Bars []bar
	Text string
}

func legend() (lines []legendLine) {
	for _, l := range [][2]string{{"planned", "waits for others"}, {"queued", "in the queue"}, {"running", "runs"}, {"succeeded", "succeeded"}, {"failed", "failed"}} {
		lines = append(lines, legendLine{[]bar{{Kind: l[0], Width: 10}}, l[1]})
	}
	return lines
}

// Bars are what the call did over time: waited for others, waited for its node, and was worked on.
func (c callRow) Bars() []bar {
	return c.scale.bars(0, c.Ended, stretch{"planned", c.Planned}, stretch{"queued", c.Queued}, stretch{string(c.Shown()), c.Started})
}

// stretch is what begins at a time, the zero time if it did not.
type stretch struct {
	kind string
	from time.Time
}

// bars draws what follows each other until an end, or until now if that is the zero time. A time by the clock of a node that lies before its cause is shown
// at its cause, and none before last.
func (s scale) bars(last int64, ended time.Time, of ...stretch) (bars []bar) {
	const endless = 1 << 40 // beyond every line; what is drawn ends with the picture
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

// Explain is what the code of the call's error means.
func (c callRow) Explain() string { return c.Error.Code.Info().Explain() }
