package supervisor

import (
	"testing"

	"writ/supervisor/workflow"
)

func TestBackoffDoublesUpToAMinuteWithJitter(t *testing.T) {
	for attempt := 1; attempt < 12; attempt++ {
		most := min(workflow.BackoffFirst<<(attempt-1), workflow.BackoffMost)
		for range 100 {
			if d := workflow.Backoff(attempt); d < most/2 || d > most {
				t.Fatalf("after attempt %d: %s, want %s to %s", attempt, d, most/2, most)
			}
		}
	}
}
