package daemon

import (
	"context"

	"writ/scripts"
	"writ/scripts/evaluator"
)

// Evaluator evaluates scripts and reports how they are confined.
type Evaluator interface {
	scripts.Evaluator
	// Confinement returns the layers that confine evaluated scripts; nil means none. The error gives the reason if
	// confinement is impossible.
	Confinement(ctx context.Context) (evaluator.Layers, error)
}
