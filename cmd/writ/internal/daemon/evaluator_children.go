//go:build !race

package daemon

import (
	"log/slog"

	"writ/scripts/evaluator"
)

// NewEvaluator returns what evaluates scripts, in children of this process, and what ends the children.
func NewEvaluator(log *slog.Logger) (Evaluator, func() error) {
	pool := &evaluator.Pool{Log: log}
	return pool, pool.Close
}
