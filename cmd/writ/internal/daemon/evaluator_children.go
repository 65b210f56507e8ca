//go:build !race

package daemon

import (
	"log/slog"

	"writ/scripts/evaluator"
)

// NewEvaluator returns an evaluator that runs scripts in child processes, and a function that ends them. weights holds
// the weights of projects by name; a missing one counts as 1.
func NewEvaluator(log *slog.Logger, weights map[string]int) (Evaluator, func() error) {
	pool := &evaluator.Pool{Log: log, Weight: func(project string) int { return weights[project] }}
	return pool, pool.Close
}
