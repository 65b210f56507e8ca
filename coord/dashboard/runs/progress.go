package runs

import (
	"cmp"
	"context"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/ledger"
)

// progress counts the calls of a run by outcome.
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

// Total is the number of calls that the run has requested so far.
func (p progress) Total() int { return p.Succeeded + p.Failed + p.Running + p.Open }

func (p progress) FailedFrom() int { return p.Succeeded }

func (p progress) RunningFrom() int { return p.Succeeded + p.Failed }

func (p progress) HTML() Node {
	if p.Total() == 0 {
		return None()
	}
	return Span(Class("progress"),
		SVG("", "0 0 "+Digits(p.Total())+" 1", Stretched(), Aria("hidden", "true"),
			Rect("b-succeeded", "", "", Digits(p.Succeeded), "1"),
			Rect("b-failed", Digits(p.FailedFrom()), "", Digits(p.Failed), "1"),
			Rect("b-running", Digits(p.RunningFrom()), "", Digits(p.Running), "1")),
		Span(Text(Digits(p.Succeeded)+"/"+Digits(p.Total())),
			If(p.Failed > 0, Group{Text(" "), Span(Class("bad"), Title("failed, cancelled or expired"),
				Glyph("failed"), Number(p.Failed), Span(Class("hidden"), Text(" failed, cancelled or expired")))})))
}

// unheardCalls counts the running calls of a run on unheard nodes.
type unheardCalls struct {
	n     int
	first *snapshot.Unheard // node of the first such call
}

// progress counts these calls as open instead of running.
func (u unheardCalls) progress(p progress) progress {
	n := min(u.n, p.Running)
	p.Running -= n
	p.Open += n
	return p
}

// unheardByRun counts the running calls on unheard nodes, by run. It reads at most markedCalls open calls of each
// running run, and skips datacenters without unheard nodes.
func unheardByRun(
	ctx context.Context, d *snapshot.Source, now *snapshot.Snapshot, runs ...ledger.Run,
) (map[writ.RunID]unheardCalls, error) {
	var ids []writ.RunID
	for _, r := range runs {
		if r.State == ledger.State(writ.RunRunning) && now.HasUnheard(r.Datacenter) {
			ids = append(ids, r.ID)
		}
	}
	open, err := d.Ledger.OpenCalls(ctx, markedCalls, ids...)
	if err != nil {
		return nil, err
	}
	all := map[writ.RunID]unheardCalls{}
	for _, r := range runs {
		var calls unheardCalls
		for _, c := range open[r.ID] {
			if u := now.UnheardCall(c, r.Datacenter, d.Reader(ctx)); u != nil {
				calls.n++
				calls.first = cmp.Or(calls.first, u)
			}
		}
		all[r.ID] = calls
	}
	return all, nil
}
