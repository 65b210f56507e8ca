package supervisor_test

import (
	"context"
	"strings"
	"testing"

	"writ"
	"writ/scripts"
)

// losingEvaluator deletes the run and then fails in its first pass.
type losingEvaluator struct {
	inProcess
	lose func()
}

func (e *losingEvaluator) Pass(
	ctx context.Context, b scripts.Bundle, in scripts.Inputs, past []scripts.Entry,
) (scripts.Outcome, error) {
	if lose := e.lose; lose != nil {
		e.lose = nil
		lose()
		return scripts.Outcome{}, writ.Errorf(writ.CodeEvaluatorCrashed, "injected crash")
	}
	return e.inProcess.Pass(ctx, b, in, past)
}

// If the database loses a run, the log must not report it as a bug of the program.
func TestLossOfRunCausesNoPanic(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		lost := make(chan struct{})
		s.evaluator = &losingEvaluator{lose: func() {
			s.tamper(`DELETE FROM runs`)
			close(lost)
		}}
		s.start()
		s.join("n1")
		s.submit(oneVolume)
		<-lost
		s.wantState(s.submit(pings(1)), writ.RunSucceeded)
		s.halt()
		if strings.Contains(s.logs.String(), "panicked") {
			t.Error("the step of the lost run panicked")
		}
	})
}
