package dashboard

import (
	"cmp"
	"context"
	"writ"
	. "writ/coord/dashboard/markup"
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

func (p progress) html() Node {
	if p.Total() == 0 {
		return none()
	}
	return Span(Class("progress"),
		SVG("", "0 0 "+digits(p.Total())+" 1", Stretched(), Aria("hidden", "true"),
			Rect("b-succeeded", "", "", digits(p.Succeeded), "1"),
			Rect("b-failed", digits(p.FailedFrom()), "", digits(p.Failed), "1"),
			Rect("b-running", digits(p.RunningFrom()), "", digits(p.Running), "1")),
		Span(Text(digits(p.Succeeded)+"/"+digits(p.Total())),
			If(p.Failed > 0, Group{Text(" "), Span(Class("bad"), Title("failed, cancelled or expired"),
				glyph("failed"), number(p.Failed), Span(Class("hidden"), Text(" failed, cancelled or expired")))})))
}

// unheardCalls counts the running calls of a run on unheard nodes.
type unheardCalls struct {
	n     int
	first *unheard // the first of their nodes
}

// progress counts these calls as open instead of running.
func (u unheardCalls) progress(p progress) progress {
	n := min(u.n, p.Running)
	p.Running -= n
	p.Open += n
	return p
}

// unheardRuns returns the unheard calls of runs. It reads at most markedCalls open calls of each running run, and none
// while all nodes are heard.
func unheardRuns(
	ctx context.Context, d *source, now *moment, runs ...ledger.Run,
) (map[writ.RunID]unheardCalls, error) {
	var ids []writ.RunID
	for _, r := range runs {
		if r.State == ledger.State(writ.RunRunning) && now.hasUnheard(r.Datacenter) {
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
			if u := now.unheardCall(c, r.Datacenter, d.Reader(ctx)); u != nil {
				calls.n++
				calls.first = cmp.Or(calls.first, u)
			}
		}
		all[r.ID] = calls
	}
	return all, nil
}
