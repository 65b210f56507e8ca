//go:build race

package daemon

import (
	"log/slog"

	"writ/scripts/evaluator"
)

// NewEvaluator evaluates in this process. A binary with the race detector, used only by tests, cannot start under the
// memory limit of the children.
func NewEvaluator(*slog.Logger, map[string]int) (Evaluator, func() error) {
	return new(evaluator.InProcess), func() error { return nil }
}
