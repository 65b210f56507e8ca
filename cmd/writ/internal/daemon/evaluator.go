package daemon

import (
	"context"

	"writ/scripts"
	"writ/scripts/evaluator"
)

// Evaluator carries out passes and knows what holds the scripts.
type Evaluator interface {
	scripts.Evaluator
	// Confinement says what confines those that are evaluated; nil means nothing. The error says why none can be.
	Confinement(ctx context.Context) (evaluator.Layers, error)
}
