package spans

import (
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/tracing"
)

// Limits of the state of open runs, whatever datacenters report. Beyond them, spans are missing.
const (
	maxOpen   = 10_000
	maxWaits  = 10_000 // of all runs
	maxReason = 300    // bytes of one
)

// openRun is the state of an open run: the events of one step have the same start, and a later event ends a wait.
type openRun struct {
	step  time.Time        // start of the newest known step
	waits map[int]waitSpan // open waits of calls by number; the wait of the run itself is under 0
}

// waitSpan is a wait that has not ended.
type waitSpan struct {
	reason string
	since  time.Time
}

// remember starts to track a run, if it is not tracked. Steps that started at or before `step` are known, or were
// reported before this recorder started.
func (r *Recorder) remember(id writ.RunID, step time.Time) {
	if r.open[id] != nil {
		return
	}
	if len(r.open) >= maxOpen {
		for other := range r.open {
			r.forget(other)
			break
		}
	}
	if r.open == nil {
		r.open = map[writ.RunID]*openRun{}
	}
	r.open[id] = &openRun{step: step, waits: map[int]waitSpan{}}
}

// forget stops tracking a run.
func (r *Recorder) forget(id writ.RunID) {
	if o := r.open[id]; o != nil {
		r.waiting -= len(o.waits)
		delete(r.open, id)
	}
}

// step records a step of a run, from its start until the time of its first event: the pass of the script, and the
// commit of its results. Later events of the same calls have the same start, so only the first one counts.
func (r *Recorder) step(id writ.RunID, began, written time.Time) {
	o := r.open[id]
	if o == nil || !began.After(o.step) {
		return
	}
	o.step = began
	r.Record(tracing.Span{
		At: tracing.OfRun(id).Part(fmt.Sprintf("step %d", began.UnixMicro())), Name: "step", From: began, Until: written, Labels: map[string]string{"run": string(id)},
	})
}

// waits updates the reason why a run, or a call of it, waits; "" means that it no longer waits for a reason. A reason
// that ends becomes a span below the run or the call itself, because a call that fails while it waits has no span for
// its wait.
func (r *Recorder) waits(at tracing.Place, id writ.RunID, seq int, reason string, now time.Time) {
	o := r.open[id]
	if o == nil {
		return
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	before, waited := o.waits[seq]
	if before.reason == reason {
		return
	}
	if waited {
		r.Record(tracing.Span{
			At: at.Part(fmt.Sprintf("since %d", before.since.UnixMicro())), Name: causeOf(before.reason), From: before.since, Until: now,
			Labels: map[string]string{"run": string(id), "reason": before.reason},
		})
		delete(o.waits, seq)
		r.waiting--
	}
	if reason != "" && r.waiting < maxWaits {
		o.waits[seq] = waitSpan{reason, now}
		r.waiting++
	}
}

// causes lists the reasons with a name of their own, by the words of a supervisor.
var causes = []struct{ words, name string }{
	{"is on hold (", "on hold"},
	{"no node is ready", "no node is ready"},
	{"is tried again at ", "pause before the next attempt"},
	{"waits for run ", "earlier run of the deployment"},
}

// causeOf names a reason to wait, so that spans of the same cause have the same name.
func causeOf(reason string) string {
	for _, c := range causes {
		if strings.Contains(reason, c.words) {
			return c.name
		}
	}
	return "waits"
}
