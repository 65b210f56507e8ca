package runview

import (
	"cmp"
	"fmt"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/clip"
)

// Progress shows the events of a run: a line when a call begins, is retried or ends, and for each log line of the
// script.
type Progress struct {
	term   *terminal.Terminal
	roster *identity.Roster // names datacenters; may be nil
	ended  time.Time        // end of the run before it was resumed; earlier events in the stream are not shown
	run    api.RunState     // "" before the first event of the run
	in     writ.DatacenterID
	told   bool // the state running was shown
	Waits  why.WaitNotes
	calls  map[int]writ.Call
	logged int        // ordinal of the last log line that was shown
	Disks  *FullDisks // nil disables the warning
}

// NewProgress returns the progress of a run for a terminal. ended is the end of the run before it was resumed: earlier
// events are not shown.
func NewProgress(t *terminal.Terminal, roster *identity.Roster, ended time.Time) *Progress {
	return &Progress{
		term: t, roster: roster, ended: ended, calls: make(map[int]writ.Call), Waits: why.WaitNotes{Show: t.Note},
	}
}

// Watcher returns the callbacks for Streams.Watch of package client.
func (p *Progress) Watcher() client.Watcher {
	return client.Watcher{
		Event: p.event,
		Lost: func(err error) {
			p.Waits.OtherLine()
			what := "the connection was lost"
			if writ.CodeOf(err) == writ.CodeTooManyWatchers {
				what = "the coordinator refuses another event stream"
			}
			p.term.Note("… %s, trying again: %v", what, err)
		},
	}
}

func (p *Progress) event(e api.Event) {
	switch {
	case p.isPast(e):
		p.remember(e)
	case e.Run != nil:
		p.runChanged(e.Run)
	case e.Call != nil:
		p.callChanged(*e.Call)
	case e.Log != nil:
		if e.Log.Ordinal > p.logged {
			p.logged = e.Log.Ordinal
			p.Waits.OtherLine()
			p.term.Note("│ %s", terminal.Clean(e.Log.Text))
		}
	}
}

// isPast reports whether an event precedes the resume. It does not compare times, because clocks may differ. The stream
// contains the earlier end of the run, and the events up to that end are past. The first event is not past: it is the
// current state of the run. If the run has ended again, its replay sends the run last, so p.run is empty until then and
// no event is past.
func (p *Progress) isPast(e api.Event) bool {
	if p.ended.IsZero() || p.run == "" {
		return false
	}
	if r := e.Run; r != nil && r.State.Ended() && r.Ended.Sub(p.ended).Abs() < time.Millisecond {
		p.ended = time.Time{}
	}
	return true
}

// remember stores an event that precedes the resume. Later states of the call are compared with it.
func (p *Progress) remember(e api.Event) {
	switch {
	case e.Call != nil:
		p.calls[e.Call.Seq] = *e.Call
	case e.Log != nil:
		p.logged = max(p.logged, e.Log.Ordinal)
	}
}

func (p *Progress) runChanged(r *api.Run) {
	if p.run == "" {
		p.term.Note("run %s", r.ID)
	}
	p.run, p.in = r.State, r.Datacenter
	if r.State == api.RunStateRunning {
		p.noteRunning()
	}
	if r.Reason != "" && !r.State.Ended() { // the stream repeats the state at its start
		p.Waits.Note(why.WaitReason{Reason: why.Reason{Why: why.SentenceOf(r.Why, r.Reason)}})
	}
}

// noteRunning prints once that the run is running. The stream repeats earlier events.
func (p *Progress) noteRunning() {
	if !p.told {
		p.told = true
		p.Waits.OtherLine()
		p.term.Note("… running in %s", identity.DatacenterName(p.roster, p.in))
	}
}

func (p *Progress) callChanged(c writ.Call) {
	if p.run != "" { // the first calls have events before the run has one
		p.noteRunning()
	}
	before, known := p.calls[c.Seq]
	p.calls[c.Seq] = c
	switch {
	case known && before.State == c.State && before.Attempt == c.Attempt:
		if c.Reason != before.Reason && c.Reason != "" && !c.State.Ended() {
			p.noteReason(c)
		}
		return
	case c.State.Ended():
		p.Waits.OtherLine()
		p.callEnded(c)
	case c.Attempt > 1 && before.Attempt < c.Attempt:
		p.Waits.OtherLine()
		p.term.Note("↻ %s: attempt %d%s", why.CallName(c), c.Attempt, because(cmp.Or(c.Error, before.Error)))
	case c.State == writ.CallRunning:
		p.Waits.OtherLine()
		p.term.Note("→ %s on %s", why.CallName(c), NodeName(c))
		if d := p.Disks.warning(c); d != nil {
			p.term.Warn("a disk of %s is almost full: %s", c.NodeName, terminal.Clean(d.String()))
		}
	case c.State == writ.CallPlanned && c.Reason != "":
		p.noteReason(c)
		return
	}
	if before.State != c.State {
		p.Waits.Forget(why.CallName(c))
	}
	if c.State == writ.CallRunning && c.Reason != "" { // the node may have reported its first progress with the start
		p.noteReason(c)
	}
}

// noteReason prints why a call waits, or the progress that its node reports.
func (p *Progress) noteReason(c writ.Call) {
	p.Waits.Note(why.WaitReason{Call: why.CallName(c), Reason: why.Reason{Why: why.SentenceOf(c.Why, c.Reason)}})
}

func (p *Progress) callEnded(c writ.Call) {
	switch c.State {
	case writ.CallSucceeded:
		if c.Node == "" { // the supervisor executed it
			p.term.Done("%s", why.CallName(c))
			return
		}
		p.term.Done("%s on %s, %s%s", why.CallName(c), NodeName(c), Duration(c), changeOf(c))
	default:
		p.term.Bad("%s: %s%s", why.CallName(c), c.State, clip.OneLine(because(c.Error), maxFailed))
	}
}

// maxFailed limits the reason in the line of a failed call, in bytes. The message at the end of the run is complete, and
// so is `writ run show` if the script handles the failure.
const maxFailed = 200

func because(e *writ.Error) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf(", %s: %s", e.Code, e.Message)
}

// NodeName formats the node and the driver of a call: "n1 (simulated)", "n2 (directory)".
func NodeName(c writ.Call) string {
	name := cmp.Or(c.NodeName, string(c.Node))
	if d := cli.DriverName(c); d != "" {
		name += " (" + d + ")"
	}
	return name
}

// Duration formats how long the node worked on the call, by its own clock.
func Duration(c writ.Call) string {
	if c.Started.IsZero() || c.Ended.IsZero() {
		return "-"
	}
	return cli.ShortDuration(c.Ended.Sub(c.Started))
}

func changeOf(c writ.Call) string {
	if c.Change == writ.ChangeNone {
		return ""
	}
	return ": " + cli.ChangeText(c)
}
