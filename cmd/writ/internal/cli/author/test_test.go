package author

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/rehearsal"
	"writ/scripts"
	"writ/scripts/evaluator"
	"writ/scripts/format"
	"writ/scripts/interpreter"
	"writ/scripts/scripttest"
)

// carryOut runs all tests of a file, and fails for each that does not pass.
func carryOut(t *testing.T, path string) {
	t.Helper()
	script, err := client.ReadScript(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(script.Report.Diagnostics) > 0 {
		t.Fatal(script.Report)
	}
	file, err := interpreter.CompileTests(script.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range file.Tests() {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			sim := &rehearsal.Sim{Dir: filepath.Dir(path), Evaluator: new(evaluator.InProcess), Log: slog.New(slog.DiscardHandler)}
			defer func() {
				if err := sim.Close(); err != nil {
					t.Error(err)
				}
			}()
			if v := file.Run(t.Context(), i, sim); v.Outcome != scripttest.Passed {
				t.Errorf("%s%s", v.Outcome, new(testedFile).notesText(v.Notes, ""))
			}
		})
	}
}

// Promise: Plans, scripts and manuals: Every example and the manual have tests, and the tests pass.
// How: They run on simulated drivers.
// Also: TestManualOfTestsIsRight.
func TestTestsOfExamplesPass(t *testing.T) {
	files, err := testFiles([]string{"../../../../../scripts/examples"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { carryOut(t, path) })
	}
}

// The page has scripts and tests, each with its file name in the first line.
func TestManualOfTestsIsRight(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/manual/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, block := range strings.Split(string(page), "```tengo\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "// "), "\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if formatted, err := format.Format(scripts.Source{Name: name, Text: []byte(text)}); err != nil || string(formatted) != text {
			t.Errorf("%s is not formatted: %v", name, err)
		}
	}
	files, err := testFiles([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		carryOut(t, path)
	}
}
