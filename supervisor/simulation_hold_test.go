package supervisor_test

import (
	"context"
	"strings"
	"time"

	"writ/identity"
	"writ/runner/queue"
)

// holdSome repeatedly holds and releases work until end. Its choices depend only on the seed.
func (s *simulation) holdSome(end time.Time) {
	luck := randomFor(s.seed, "holds")
	subjects := []string{allWork, shopsWork, "operation/volume", "operation/container.exec"}
	var next func()
	next = func() {
		if !time.Now().Before(end) {
			return
		}
		subject, lasts := subjects[luck.IntN(len(subjects))], time.Duration(luck.Int64N(int64(90*time.Second)))
		s.note("holds", "subject", subject, "for", lasts)
		s.late.Go(func() {
			s.decideScope(subject, identity.DecisionHold)
			if subject == allWork || subject == shopsWork {
				s.heldAt.Store(time.Now().UnixNano())
			}
			time.Sleep(lasts)
			s.heldAt.Store(0)
			s.decideScope(subject, identity.DecisionRelease)
		})
		s.after(4*time.Minute+time.Duration(luck.Int64N(int64(8*time.Minute))), next)
	}
	s.after(time.Duration(luck.Int64N(int64(5*time.Minute))), next)
}

// decideScope submits a decision, and signs again if another decision was recorded first.
func (s *simulation) decideScope(subject, decision string) {
	s.retryUntilDone(func(ctx context.Context) error {
		err := s.decideNow(ctx, s.statement(subject, decision))
		if err != nil && strings.Contains(err.Error(), "is not on hold") { // the answer to the last attempt was lost
			return nil
		}
		return err
	})
}

// checkHold fails the test if the active supervisor sends jobs although all work has been on hold for so long that it
// must have noticed.
func (s *simulation) checkHold(p *process, tasks []queue.Task) {
	const known = 20 * time.Second
	since := s.heldAt.Load()
	if since == 0 || p != s.process || !p.hears(known) || time.Since(time.Unix(0, since)) < known {
		return
	}
	for _, t := range tasks {
		s.t.Errorf("%s was sent while all work has been on hold for %s", t.ID, time.Since(time.Unix(0, since)))
	}
}
