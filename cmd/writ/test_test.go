package main

import (
	"log/slog"
	"path/filepath"
	"testing"

	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/rehearsal"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// carryOut carries out all tests of a file, and fails for each that does not pass.
func carryOut(t *testing.T, path string) {
	t.Helper()
	script, err := client.ReadScript(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(script.Report.Diagnostics) > 0 {
		t.Fatal(script.Report)
	}
	file, err := scripts.CompileTests(script.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range file.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			stage := &rehearsal.Stage{Dir: filepath.Dir(path), Evaluator: new(evaluator.InProcess), Log: slog.New(slog.DiscardHandler)}
			defer func() {
				if err := stage.Close(); err != nil {
					t.Error(err)
				}
			}()
			if v := file.Run(t.Context(), i, stage); v.Outcome != scripts.TestPassed {
				t.Errorf("%s%s", v.Outcome, notesText(v.Notes, ""))
			}
		})
	}
}

func TestTestsOfExamplesPass(t *testing.T) {
	files, err := testFiles([]string{"../../scripts/examples"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { carryOut(t, path) })
	}
}
