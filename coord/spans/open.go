package spans

import (
	"fmt"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/internal/tracing"
)

// Limits of the state of open runs, because datacenters may report any number. Beyond them, spans are missing.
const (
	maxOpen   = 10_000
	maxWaits  = 10_000 // of all runs
	maxReason = 300    // bytes of one reason
)

// openRun is the state of an open run. The step is kept because several events report the same step, and the waits
// because a later event ends them.
type openRun struct {
	step  time.Time        // start of the newest known step
	waits map[int]waitSpan // open waits of calls by number; the wait of the run itself is under 0
}

// waitSpan is a wait that has not ended. It does not hold the whole reason, because another process chooses the size of
// a reason.
type waitSpan struct {
	code   writ.ReasonCode
	reason string // the sentence
	since  time.Time
}

// remember starts to track a run, if it is not tracked. Steps that started at or before `step` are not recorded: they
// are recorded already, or ended before this recorder started.
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

// step records a step of a run, from its start until the time of its first event: the evaluation of the script, and the
// commit of its results. Later events of the same calls have the same start, so only the first one counts.
func (r *Recorder) step(id writ.RunID, began, written time.Time) {
	o := r.open[id]
	if o == nil || !began.After(o.step) {
		return
	}
	o.step = began
	r.Record(tracing.Span{
		At: tracing.OfRun(id).Part(fmt.Sprintf("step %d", began.UnixMicro())), Name: "step", From: began, Until: written,
		Labels: map[string]string{"run": string(id)},
	})
}

// waits updates the reason why a run (seq 0) or a call waits. The zero reason means that it no longer waits. When a
// reason ends, waits records it as a span directly below the run or call, because a call that fails while it waits has
// no span "wait".
func (r *Recorder) waits(at tracing.Place, id writ.RunID, seq int, why writ.Reason, now time.Time) {
	o := r.open[id]
	if o == nil {
		return
	}
	wait := waitSpan{code: why.Code, reason: clip.Prefix(why.String(), maxReason), since: now}
	before, waited := o.waits[seq]
	if before.code == wait.code && before.reason == wait.reason {
		return
	}
	if waited {
		r.Record(tracing.Span{
			At: at.Part(fmt.Sprintf("since %d", before.since.UnixMicro())), Name: causeOf(before.code), From: before.since,
			Until:  now,
			Labels: map[string]string{"run": string(id), "reason": before.reason},
		})
		delete(o.waits, seq)
		r.waiting--
	}
	if !why.IsZero() && r.waiting < maxWaits {
		o.waits[seq] = wait
		r.waiting++
	}
}

// causes maps the codes of reasons to names of spans.
var causes = map[writ.ReasonCode]string{
	writ.ReasonHold:   "on hold",
	writ.ReasonNoNode: "no node is ready",
	writ.ReasonRetry:  "pause before the next attempt",
	writ.ReasonRun:    "earlier run of the deployment",
}

// causeOf names a reason to wait, so that spans of the same cause have the same name.
func causeOf(code writ.ReasonCode) string {
	if name := causes[code]; name != "" {
		return name
	}
	return "waits"
}
