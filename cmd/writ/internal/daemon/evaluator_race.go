//go:build race

package daemon

import (
	"log/slog"

	"writ/scripts/evaluator"
)

// NewEvaluator evaluates in this process: a binary with the race detector, which only tests are, does not start under the children's
// limit on memory.
func NewEvaluator(*slog.Logger, map[string]int) (Evaluator, func() error) {
	return new(evaluator.InProcess), func() error { return nil }
}
