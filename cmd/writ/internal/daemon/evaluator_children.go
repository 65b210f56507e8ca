//go:build !race

package daemon

import (
	"log/slog"

	"writ/scripts/evaluator"
)

// NewEvaluator returns what evaluates scripts, in children of this process, and what ends the children. The weights are those of projects,
// by their names, 1 for all that are missing.
func NewEvaluator(log *slog.Logger, weights map[string]int) (Evaluator, func() error) {
	pool := &evaluator.Pool{Log: log, Weight: func(project string) int { return weights[project] }}
	return pool, pool.Close
}
