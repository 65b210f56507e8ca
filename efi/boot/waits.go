package boot

import (
	"context"
	"time"

	"writ/efi/progress"
)

// Limits of waits that neither a timeout nor the machine ends.
var (
	joinLimit     = progress.Limit{Then: "it asks until the supervisor answers"}
	approvalLimit = progress.Limit{Then: "an admin decides"}
)

// runnerAgain describes what follows the pause of an exited runner.
const runnerAgain = "the runner starts again"

// waits records the current wait of a stage, until the stage reports that it is done.
func (s *status) waits(stage, text string, l progress.Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages.waits(stage, progress.Wait{Text: text, Limit: l, Since: time.Now()})
}

// within records the current wait of a stage and returns a context with its limit as the timeout.
func (s *status) within(ctx context.Context, stage, text string, l progress.Limit) (context.Context, context.CancelFunc) {
	s.waits(stage, text, l)
	return context.WithTimeout(ctx, l.Most)
}
