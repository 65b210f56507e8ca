package remedy

import (
	"testing"
	"time"

	"writ"
)

// Promise: Operation: A resume is offered only if it can end differently.
// How: The supervisor reports whether the script handled its error; codes and the deadline decide the rest.
// Also: TestFailureReportsHandledError.
func TestResumeIsOfferedWhereItHelps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	failed := func(code writ.Code, seq int, handled bool) *writ.Failure {
		return &writ.Failure{Error: writ.Error{Code: code}, Seq: seq, Handled: handled}
	}
	for name, tt := range map[string]struct {
		failure  *writ.Failure
		deadline time.Time
		helps    bool
	}{
		"Unknown":         {nil, now.Add(time.Hour), true},
		"Call":            {failed(writ.CodeDiskFull, 2, false), now.Add(time.Hour), true},
		"HandledCall":     {failed(writ.CodeDiskFull, 2, true), now.Add(time.Hour), false},
		"WrongArguments":  {failed(writ.CodeArgumentsInvalid, 2, false), now.Add(time.Hour), false},
		"ScriptItself":    {failed(writ.CodeScriptFailed, 0, false), now.Add(time.Hour), false},
		"EvaluatorKilled": {failed(writ.CodeInternal, 0, false), now.Add(time.Hour), true},
		"DeadlinePassed":  {failed(writ.CodeDiskFull, 2, false), now, false},
	} {
		if got := ResumeHelps(tt.failure, tt.deadline, now); got != tt.helps {
			t.Errorf("%s: a resume helps is %v, want %v", name, got, tt.helps)
		}
	}
}
