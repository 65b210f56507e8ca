package runs

import (
	"context"
	"html"
	"net/http"
	"strconv"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/widget"
	"writ/internal/hidden"
	"writ/ledger"
)

// Limits of pages with data from datacenters.
const (
	maxValues  = 40
	maxLines   = 400
	linesBytes = 80 << 10 // limit of the lines on a page, which has at most 100 KB
	lineMarkup = 200      // bytes of HTML around the text of a line
	afterCall  = "after-call"
	afterLine  = "after-line"
)

// values is the page of the output of a run, and of the arguments and results of its calls. Each load of the page
// requests them from the datacenter, because the coordinator stores no values; the page has no live updates.
func (d *RunPages) values(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	run, after, err := d.asked(ctx, r, afterCall)
	if err != nil {
		return nil, err
	}
	answer, err := d.LiveView.Values(ctx, run.ID, after, maxValues)
	if err != nil {
		return nil, err
	}
	data := valuesPage{Run: run, Output: valuesOf(answer.Run.Output), First: page.FirstOf(r.URL, afterCall)}
	for _, c := range answer.Calls {
		data.Calls = append(data.Calls, callValues{c.Call, valuesOf(c.Args), valuesOf(c.Values)})
		after = c.Seq
	}
	if answer.More {
		data.Next = page.Address(r.URL, afterCall, strconv.Itoa(after))
	}
	return &page.Page{Title: "Values of " + run.Script, Nav: "runs", Body: data}, nil
}

// asked parses the run and the list position of an address.
func (d *RunPages) asked(
	ctx context.Context, r *http.Request, parameter string,
) (run ledger.Run, after int, err error) {
	if run, err = d.runIn(ctx, r); err != nil {
		return run, 0, err
	}
	if text := r.URL.Query().Get(parameter); text != "" {
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return run, 0, writ.Errorf(writ.CodeBadRequest, "%s is not a number", parameter)
		}
	}
	return run, after, nil
}

type valuesPage struct {
	Run         ledger.Run
	Output      []widget.Named
	Calls       []callValues
	First, Next string
}

type callValues struct {
	writ.Call
	Args, Values []widget.Named
}

// log is the page of the log of a script. Each load of the page requests it from the datacenter.
func (d *RunPages) log(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	run, after, err := d.asked(ctx, r, afterLine)
	if err != nil {
		return nil, err
	}
	lines, err := d.LiveView.LogLines(ctx, run.ID, after, maxLines)
	if err != nil {
		return nil, err
	}
	data := logPage{Run: run, First: page.FirstOf(r.URL, afterLine)}
	size := 0
	for i := range lines {
		lines[i].Text = widget.Cut(lines[i].Text, 4*widget.MaxValue)
		if size += lineMarkup + len(html.EscapeString(lines[i].Text)); i > 0 && size > linesBytes {
			lines = lines[:i]
			data.Next = page.Address(r.URL, afterLine, strconv.Itoa(lines[i-1].Ordinal))
			break
		}
	}
	if data.Lines = lines; len(lines) == maxLines {
		data.Next = page.Address(r.URL, afterLine, strconv.Itoa(lines[len(lines)-1].Ordinal))
	}
	return &page.Page{Title: "Log of " + run.Script, Nav: "runs", Body: data}, nil
}

type logPage struct {
	Run         ledger.Run
	Lines       []writ.LogLine
	First, Next string
}

// output is the output of a run from the summary in the ledger, which the datacenter has signed.
type output struct {
	Values []widget.Named
	Wrong  string // why the output cannot be shown
	Ended  bool
	Link   string // address of the page with values from the datacenter
}

// Key is constant, because its part of the page has no other element.
func (output) Key() string { return "output" }

func (d *RunPages) outputOf(ctx context.Context, run ledger.Run) output {
	o := output{Ended: !run.Ended.IsZero(), Link: "/runs/" + string(run.ID) + "/values"}
	if run.Accepted.IsZero() {
		o.Link = "" // the datacenter does not have the run
	}
	values, err := d.LiveView.Output(ctx, run)
	if err != nil {
		o.Wrong = hidden.Escape(writ.AsError(err).Message)
	}
	o.Values = valuesOf(values)
	return o
}
