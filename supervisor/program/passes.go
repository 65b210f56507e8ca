package program

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/metrics"
)

// passes counts the passes of all scripts.
type passes struct {
	took   prometheus.Histogram   // passes with an outcome
	failed *prometheus.CounterVec // passes without an outcome, by code
}

func newPasses() passes {
	return passes{
		took: metrics.Durations("writ_supervisor_pass_seconds",
			"Duration of script evaluations, including the wait for a free evaluator."),
		failed: metrics.Counts("writ_supervisor_pass_failures_total", "Script evaluations without a result, by code.", "code"),
	}
}

// record counts a pass. A pass that failed after the end of ctx is not counted.
func (p *passes) record(ctx context.Context, took time.Duration, err error) {
	switch {
	case err == nil:
		p.took.Observe(took.Seconds())
	case ctx.Err() == nil:
		p.failed.WithLabelValues(string(writ.CodeOf(err).Info().Code)).Inc()
	}
}
