package boot

import (
	"context"
	"fmt"
	"time"
)

// waitLimit bounds a wait. The code that waits takes its bound from here, and so does the page, so that they cannot differ.
type waitLimit struct {
	most time.Duration // it has none if 0
	then string        // what happens then. Without a bound: why there is none
}

// wait is something that a machine waits for.
type wait struct {
	text  string // "" if that is plain
	limit waitLimit
	since time.Time
}

// String says how much of its limit is over, and what happens then.
func (w wait) String() string {
	text := w.text
	if text != "" {
		text += ": "
	}
	if w.limit.most == 0 {
		return text + "no limit, " + w.limit.then
	}
	over := min(time.Since(w.since), w.limit.most)
	return text + fmt.Sprintf("%.0f s of %.0f s, then %s", over.Seconds(), w.limit.most.Seconds(), w.limit.then)
}

// What neither a time nor the machine ends.
var (
	joinLimit     = waitLimit{then: "it asks until that answers"}
	approvalLimit = waitLimit{then: "an admin decides"}
)

// runnerAgain is what happens after the pause of a runner that has ended.
const runnerAgain = "the runner starts again"

// waits notes what a stage of the start waits for, until it says that it is done.
func (s *status) waits(stage, text string, l waitLimit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages.waits(stage, wait{text, l, time.Now()})
}

// within notes what a stage waits for, and returns a context that ends with the limit of that.
func (s *status) within(ctx context.Context, stage, text string, l waitLimit) (context.Context, context.CancelFunc) {
	s.waits(stage, text, l)
	return context.WithTimeout(ctx, l.most)
}
