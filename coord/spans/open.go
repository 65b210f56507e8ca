package spans

import (
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/internal/tracing"
)

// Bounds of what is remembered of open runs, also if datacenters tell of more. Beyond them spans are missing.
const (
	maxOpen   = 10_000
	maxWaits  = 10_000 // of all runs
	maxReason = 300    // bytes of one
)

// openRun is what is remembered of a run that goes on: events of the same step name its beginning, and a later event ends a wait.
type openRun struct {
	step  time.Time        // when the newest step began that is known
	waits map[int]waitSpan // of calls by their numbers; that of the run itself under 0
}

// waitSpan is a wait whose end is not known yet.
type waitSpan struct {
	reason string
	since  time.Time
}

// remember begins to remember a run, unless it is remembered: steps that began at a time or before are known, or were told of before this recorder began.
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

// forget ends that.
func (r *Recorder) forget(id writ.RunID) {
	if o := r.open[id]; o != nil {
		r.waiting -= len(o.waits)
		delete(r.open, id)
	}
}

// step is a step of a run, from when it began to when an event was written with it: the pass of the script, and the commit of what followed. Later
// events of the same calls name that beginning, too, so only the first one counts.
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

// waits takes what a run, or the call of it with a number, waits for at a time: "" for nothing more that has a reason. A reason that ends is a part of the
// span at a place: of the run or the call itself, as what fails while it waits has no span of its wait.
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

// causes are the reasons that have a name of their own, by how a supervisor says them.
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
