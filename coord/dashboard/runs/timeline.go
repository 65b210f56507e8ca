package runs

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/widget"
	"writ/ledger"
)

// Limits of the page of a timeline.
const (
	maxTimelineCalls = 50
	maxAttempts      = 100  // attempts of all calls on a page; each has a row in the table
	attemptsOfCall   = 12   // shown attempts of one call, the newest
	attemptEvents    = 5000 // events that are read for earlier attempts
	eventsAtOnce     = 500
)

// timeline is the page of the calls of a run over time, with each attempt. It is built on request only: attempts before
// the last one are read from the events of the run.
func (d *RunPages) timeline(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	run, err := d.runIn(ctx, r)
	if err != nil {
		return nil, err
	}
	id := run.ID
	cursor := r.URL.Query().Get(page.CursorParam)
	calls, err := d.Ledger.Calls(ctx, id, ledger.Page{Limit: maxTimelineCalls, Cursor: cursor})
	if err != nil {
		return nil, err
	}
	past, whole, err := d.pastAttempts(ctx, id, calls.Items)
	if err != nil {
		return nil, err
	}
	if n := fitting(calls.Items, past); n < len(calls.Items) {
		if calls, err = d.Ledger.Calls(ctx, id, ledger.Page{Limit: n, Cursor: cursor}); err != nil {
			return nil, err
		}
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data := timelinePage{
		Run: run, Line: scaleOf(run, calls.Items, time.Now()), Forgotten: !whole,
		Pager: page.PagerOf(r.URL, calls.Next, "More calls"),
	}
	for _, c := range calls.Items {
		row := timelineRow{
			callRow:  callRow{Call: c, scale: data.Line, Unheard: now.UnheardCall(c, run.Datacenter, d.Reader(ctx))},
			Attempts: attemptsOf(c, past[c.Seq]),
		}
		row.Attempts[len(row.Attempts)-1].State = row.Shown()
		data.Calls = append(data.Calls, row)
	}
	return &page.Page{Title: "Timeline of " + run.Script, Nav: "runs", Body: data}, nil
}

// timelinePage is the body of the page.
type timelinePage struct {
	Run       ledger.Run
	Line      scale
	Calls     []timelineRow
	Forgotten bool // earlier attempts are missing
	Pager     page.Pager
}

// fitting returns how many of the first calls fit on a page with all of their attempts, at least one.
func fitting(calls []writ.Call, past map[int][]attempt) int {
	lines := 0
	for i, c := range calls {
		if lines += min(len(past[c.Seq])+1, attemptsOfCall); lines > maxAttempts && i > 0 {
			return i
		}
	}
	return len(calls)
}

// attempt is one attempt of a call: the times when its wait began, when it was sent, started and ended. Unknown times
// are zero.
type attempt struct {
	Number                        int
	Node                          string
	Waits, Queued, Started, Ended time.Time
	State                         writ.CallState // current or final state of the attempt
	Code                          writ.Code      // error code of the failure
}

// pastAttempts returns all attempts of each call before the last attempt, by the number of the call. whole is false if
// events of some attempts are missing.
func (d *RunPages) pastAttempts(
	ctx context.Context, run writ.RunID, calls []writ.Call,
) (past map[int][]attempt, whole bool, err error) {
	want := map[int]int{} // number of earlier attempts, by call
	for _, c := range calls {
		if c.Attempt > 1 {
			want[c.Seq] = c.Attempt - 1
		}
	}
	history := attempts{last: map[int]writ.Call{}, past: map[int][]attempt{}}
	after := int64(0)
	for range attemptEvents / eventsAtOnce {
		if len(want) == 0 {
			break
		}
		events, more, err := d.Ledger.Events(ctx, after, ledger.EventFilter{Run: run, Topics: []string{"call"}}, eventsAtOnce)
		if err != nil {
			return nil, false, err
		}
		for _, e := range events {
			if e.Call != nil && want[e.Call.Seq] > 0 {
				history.add(*e.Call, e.Time)
			}
			after = e.ID
		}
		if !more {
			break
		}
	}
	whole = true
	for seq, n := range want {
		whole = whole && len(history.past[seq]) >= n
	}
	return history.past, whole, nil
}

// attempts assembles the attempts of calls from their events, in order.
type attempts struct {
	last map[int]writ.Call
	past map[int][]attempt
}

// add applies the state of a call at a time. The event that starts an attempt also contains the outcome of the previous
// attempt.
func (a attempts) add(c writ.Call, at time.Time) {
	last, known := a.last[c.Seq]
	if known && c.Attempt > last.Attempt {
		before := attempt{
			Number: last.Attempt, Node: last.NodeName, Waits: waitsSince(last, a.past[c.Seq]), Queued: last.Queued,
			Started: c.Started, Ended: c.Ended, State: writ.CallFailed,
		}
		if c.Started.IsZero() {
			before.Started = last.Started
		}
		if c.Ended.IsZero() {
			before.Ended = at
		}
		if c.Error != nil {
			before.Code = c.Error.Code
		}
		a.past[c.Seq] = append(a.past[c.Seq], before)
	}
	a.last[c.Seq] = c
}

// waitsSince returns when the newest attempt of a call began to wait: at the end of the previous attempt, or when the
// call was planned.
func waitsSince(c writ.Call, past []attempt) time.Time {
	if n := len(past); n > 0 {
		return past[n-1].Ended
	}
	return c.Planned
}

// attemptsOf returns the newest attempts of a call: the past attempts, and the last attempt, which the call itself
// describes.
func attemptsOf(c writ.Call, past []attempt) []attempt {
	newest := attempt{
		Number: c.Attempt, Node: c.NodeName, Waits: waitsSince(c, past), Queued: c.Queued, Started: c.Started,
		Ended: c.Ended, State: c.State,
	}
	if c.Error != nil && c.State.Ended() {
		newest.Code = c.Error.Code
	}
	if n := len(past); n > 0 { // clears times that the call still has from the previous attempt
		before := past[n-1]
		for _, t := range []*time.Time{&newest.Queued, &newest.Started, &newest.Ended} {
			if !t.IsZero() && !t.After(before.Started) || t.Equal(before.Ended) || t.Equal(before.Queued) {
				*t = time.Time{}
			}
		}
	}
	all := append(slices.Clone(past), newest)
	return all[max(0, len(all)-attemptsOfCall):]
}

// timelineRow is a call with its attempts.
type timelineRow struct {
	callRow
	Attempts []attempt
}

// Bars returns the bars of all attempts, one after the other.
func (r timelineRow) Bars() (bars []bar) {
	for _, a := range r.Attempts {
		last := int64(0)
		if n := len(bars); n > 0 && !bars[n-1].Open {
			last = bars[n-1].From + bars[n-1].Width
		}
		bars = append(bars,
			r.scale.bars(last, a.Ended, stretch{"planned", a.Waits}, stretch{"queued", a.Queued},
				stretch{string(a.State), a.Started})...)
	}
	return bars
}

// Since formats a time relative to the start of the run.
func (s scale) Since(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return widget.Duration(t.Sub(s.From))
}

// Worked returns the duration of the work of an attempt, "–" if unknown.
func (a attempt) Worked() string {
	if a.Started.IsZero() || a.Ended.IsZero() {
		return "–"
	}
	return widget.Duration(cmp.Or(max(a.Ended.Sub(a.Started), 0), time.Millisecond))
}
