package boot

import (
	"context"
	"fmt"
	"time"
)

// waitLimit is the limit of a wait. The waiting code and the page use the same value, so they cannot differ.
type waitLimit struct {
	most time.Duration // no limit if 0
	then string        // what happens after the limit; without a limit, the reason for that
}

// wait is something that the machine currently waits for.
type wait struct {
	text  string // "" if it is obvious
	limit waitLimit
	since time.Time
}

// String formats the elapsed time, the limit and what happens then.
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

// Limits of waits that neither a timeout nor the machine ends.
var (
	joinLimit     = waitLimit{then: "it asks until the supervisor answers"}
	approvalLimit = waitLimit{then: "an admin decides"}
)

// runnerAgain describes what follows the pause of an exited runner.
const runnerAgain = "the runner starts again"

// waits records the current wait of a stage, until the stage reports that it is done.
func (s *status) waits(stage, text string, l waitLimit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages.waits(stage, wait{text, l, time.Now()})
}

// within records the current wait of a stage and returns a context with its limit as the timeout.
func (s *status) within(ctx context.Context, stage, text string, l waitLimit) (context.Context, context.CancelFunc) {
	s.waits(stage, text, l)
	return context.WithTimeout(ctx, l.most)
}
