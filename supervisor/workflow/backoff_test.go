package workflow

import "testing"

func TestBackoffDoublesUpToAMinuteWithJitter(t *testing.T) {
	for attempt := 1; attempt < 12; attempt++ {
		most := min(BackoffFirst<<(attempt-1), BackoffMost)
		for range 100 {
			if d := Backoff(attempt); d < most/2 || d > most {
				t.Fatalf("after attempt %d: %s, want %s to %s", attempt, d, most/2, most)
			}
		}
	}
}
