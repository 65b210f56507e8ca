package catalog

import (
	"testing"
	"time"
)

// Promise: Commands and hosts: A grace period longer than the default time limit of its call extends that limit.
// Also: supervisor.TestGraceExtendsTheTimeLimit.
func TestTimeLimitIncludesLongWaits(t *testing.T) {
	for _, tt := range []struct {
		operation  string
		args, made map[string]any
		want       time.Duration
	}{
		{"machine.stop", nil, nil, 5 * time.Minute},
		{"machine.stop", map[string]any{"grace_seconds": int64(30)}, nil, 5 * time.Minute},
		{"machine.stop", map[string]any{"grace_seconds": int64(3600)}, nil, 62 * time.Minute},
		{"container.stop", map[string]any{"grace_seconds": int64(0)}, map[string]any{"grace_seconds": int64(3600)}, 5 * time.Minute},
		{"container.create", map[string]any{"grace_seconds": int64(600)}, nil, 12 * time.Minute},
		{"container.delete", nil, map[string]any{"grace_seconds": int64(600)}, 12 * time.Minute},
		{"container.delete", map[string]any{"grace_seconds": int64(1)}, map[string]any{"grace_seconds": int64(600)}, 5 * time.Minute},
		{"container.logs", map[string]any{"wait_seconds": int64(60)}, nil, 3 * time.Minute},
		{"volume.create", map[string]any{"size_gib": int64(3600)}, nil, 10 * time.Minute},
	} {
		if got := operation(t, tt.operation).TimeLimit(tt.args, tt.made); got != tt.want {
			t.Errorf("%s %v: %v, want %v", tt.operation, tt.args, got, tt.want)
		}
	}
}
