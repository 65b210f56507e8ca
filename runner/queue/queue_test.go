package queue_test

import (
	"testing"
	"time"

	"writ/runner/queue"
)

func TestPollIntervalSharesTheBudgetAmongNodes(t *testing.T) {
	for _, tt := range []struct {
		nodes int
		want  time.Duration
	}{
		{0, 2 * time.Millisecond},
		{1, 2 * time.Millisecond},
		{4, 2 * time.Millisecond},
		{20, 10 * time.Millisecond},
		{500, 250 * time.Millisecond},
		{100_000, 250 * time.Millisecond},
	} {
		if got := queue.PollInterval(tt.nodes); got != tt.want {
			t.Errorf("PollInterval(%d) = %v, want %v", tt.nodes, got, tt.want)
		}
	}
}
