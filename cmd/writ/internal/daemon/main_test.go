package daemon

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"writ/scripts/evaluator"
)

func TestMain(m *testing.M) {
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	goleak.VerifyTestMain(m)
}
