package runner

import (
	"testing"
	"time"

	"writ"
)

func TestAnAttemptLastsAtMostItsTimeout(t *testing.T) {
	const start, timeout = 60_000, 3_000
	for name, tt := range map[string]struct {
		job       writ.Job
		now, want int64
	}{
		"at once":                  {writ.Job{StartBy: start, EndBy: start + timeout, Deadline: 900_000}, 1000, 1000 + timeout},
		"without a deadline":       {writ.Job{StartBy: start, EndBy: start + timeout}, 1000, 1000 + timeout},
		"in the last moment":       {writ.Job{StartBy: start, EndBy: start + timeout, Deadline: 900_000}, start, start + timeout},
		"cut off by the deadline":  {writ.Job{StartBy: start, EndBy: start + timeout, Deadline: start + timeout}, 1000, start + timeout},
		"begun before, by a crash": {writ.Job{StartBy: start, EndBy: start + timeout, Deadline: 900_000}, start + 1000, start + timeout},
		"deadline before start-by": {writ.Job{StartBy: start, EndBy: start - 1000, Deadline: start - 1000}, 1000, start - 1000},
	} {
		if got := endBy(&tt.job, time.UnixMilli(tt.now)); got != tt.want {
			t.Errorf("%s: it ends at %d, want %d", name, got, tt.want)
		}
	}
}
