//go:build !race

package daemon

import (
	"log/slog"

	"writ/scripts"
	"writ/scripts/evaluator"
)

// newEvaluator returns what evaluates scripts, in children of this process, and what ends the children.
func newEvaluator(log *slog.Logger) (scripts.Evaluator, func() error) {
	pool := &evaluator.Pool{Log: log}
	return pool, pool.Close
}
