package workflow

import (
	"writ"
	"writ/supervisor/journal"
)

// stopOrder is an order to a node about a job that it works on.
type stopOrder int

const (
	stopNothing stopOrder = iota // the supervisor waits for the job
	stopRun                      // stop all jobs of the run up to a number of resumes
	stopJob                      // stop only this job
)

// stopOf returns the order about an active job of a call, which is nil if it is unknown. A job must be stopped if its
// run ends, or ended, or was resumed since, or if its attempt ended without success.
func stopOf(run *journal.Run, c *journal.Call, attempt int) (order stopOrder, resumes int) {
	switch {
	case run.State.Ended() || run.StopsCalls():
		return stopRun, run.Resumes
	case c == nil || attempt > c.Attempt:
		return stopNothing, 0
	case attempt <= c.Before && run.Resumes > 0:
		return stopRun, run.Resumes - 1
	case attempt < c.Attempt || c.State.Ended() && c.State != writ.CallSucceeded:
		return stopJob, 0
	}
	return stopNothing, 0
}
