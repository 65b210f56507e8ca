package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"writ"
	"writ/internal/tracing"
	"writ/runner"
	"writ/sal"
)

func TestEachAttemptOfAJobIsASpanOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := make(chan tracing.Span, 10)
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Record = func(s tracing.Span) { spans <- s } })
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun && strings.HasSuffix(r.Key, "-1") {
				return writ.Errorf(writ.CodeDriverFailed, "the disk is asleep")
			}
			return nil
		})
		job := n.job(1, "volume.create", "data", nil)
		for attempt, want := range []struct{ failed, change string }{{"DRIVER_FAILED: the disk is asleep", ""}, {"", "created"}} {
			job.Attempt = attempt + 1
			n.push(job)
			n.await(job.JobKey)
			s := <-spans
			if s.At != tracing.OfAttempt(job.Run, 1, attempt+1).Part("job") || s.Error != want.failed || s.Labels["change"] != want.change ||
				s.Labels["operation"] != "volume.create" || s.Labels["name"] != "data" || s.Until.Before(s.From) {
				t.Errorf("attempt %d: %+v", attempt+1, s)
			}
		}
	})
}
