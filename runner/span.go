package runner

import (
	"strconv"
	"time"

	"writ"
	"writ/internal/tracing"
)

// spanOf returns the span of a job: the work of its driver, by the node's clock.
func spanOf(job *writ.Job, node string, started, ended time.Time, result *writ.Result) tracing.Span {
	s := tracing.Span{
		At: tracing.OfAttempt(job.Run, job.Seq, job.Attempt).Part("job"), Name: "driver " + result.Driver,
		From: started, Until: ended,
		Labels: map[string]string{
			"run": string(job.Run), "seq": strconv.Itoa(job.Seq), "operation": job.Operation, "name": job.Name,
			"node": node, "driver": result.Driver,
			"attempt": strconv.Itoa(job.Attempt), "delivery": strconv.Itoa(job.Delivery),
			"change": string(result.Change),
		},
	}
	if result.Simulated {
		s.Labels["simulated"] = "true"
	}
	s.Fail(result.Error)
	return s
}
