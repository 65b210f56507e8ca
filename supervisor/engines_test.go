package supervisor_test

import (
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/supervisor"
	"writ/supervisor/journal"
)

// Promise: Evaluation and resumes: A supervisor refuses to start if it lacks the engine of an open run.
// How: The error names the runs and the next step.
func TestUnknownEngineStopsSupervisorStart(t *testing.T) {
	s := newSim(t)
	var open []writ.RunID
	for range 7 {
		open = append(open, s.submit(`node := import("node"); node.facts().cpus`)) // waits for a node
	}
	s.halt()
	needs := func(engine string) error {
		j, err := journal.Open(t.Context(), s.place)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close() }()
		if err := j.Write(t.Context(), func(tx *journal.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE runs SET engine = $1`, engine)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		config := s.Config
		config.Journal = j
		_, err = supervisor.Open(t.Context(), config, nil)
		return err
	}
	const other = "tengo/1.0.0 api/1"
	err := needs(other)
	if writ.CodeOf(err) != writ.CodeEngineUnsupported || writ.AsError(err).Hint == "" || !strings.Contains(err.Error(), other) {
		t.Fatalf("open runs of engine %q: %v (%s), want %s", other, err, writ.CodeOf(err), writ.CodeEngineUnsupported)
	}
	if !strings.Contains(err.Error(), string(open[0])) || strings.Contains(err.Error(), string(open[6])) || !testenv.Mentions(err.Error(), "more") {
		t.Errorf("the error does not name the oldest runs: %v", err)
	}
	if own := scripts.Engine; needs(own) != nil {
		t.Errorf("open runs of engine %q: %v", own, needs(own))
	}
}
