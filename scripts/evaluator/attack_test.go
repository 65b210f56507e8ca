package evaluator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// TestAttacks runs scripts that would take all memory, all time or the whole process if Tengo were left alone. Each must end as its own
// failure, with the code it names and a position, in a child that lives on: so within the CPU time and memory of one. So must its plan, or
// it goes as far as values are known.
func TestAttacks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/attacks/*.tengo")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d attacks, %v", len(files), err)
	}
	const children = 2
	pool := newPool(t, children)
	queue := make(chan string, len(files))
	for _, file := range files {
		queue <- file
	}
	close(queue)
	var group sync.WaitGroup
	for range children {
		group.Go(func() {
			for file := range queue {
				if err := attack(t, pool, file); err != nil {
					t.Errorf("%s: %v", filepath.Base(file), err)
				}
			}
		})
	}
	group.Wait()
	finish(t, pool, bundle(facts))
}

func attack(t *testing.T, pool *evaluator.Pool, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	first, _, _ := strings.Cut(string(text), "\n")
	want := writ.Code(strings.TrimPrefix(first, "// want: "))
	inputs := everything
	inputs.MaxCalls = scripts.MaxCalls
	inputs.Allow = []string{"node.ping", "volume.create", "container.exec", "machine.create"}
	bundle := scripts.Bundle{Main: scripts.Source{Name: name, Text: text}}
	plan, err := pool.Plan(t.Context(), bundle, inputs)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if plan.Horizon == nil && (plan.Failure == nil || plan.Failure.Code != want) {
		return fmt.Errorf("its plan is complete, failure %v", plan.Failure)
	}
	o, err := pool.Pass(t.Context(), bundle, inputs, nil)
	if err != nil {
		return err
	}
	if o.Status != scripts.Failed || o.Failure.Code != want {
		return fmt.Errorf("%s %+v, want %s", o.Status, o.Failure, want)
	}
	for _, position := range append(o.Failure.Trace, o.Failure.Position) {
		if strings.HasPrefix(position, name+":") {
			return nil
		}
	}
	return fmt.Errorf("it failed at %q (%q), which is not in the script", o.Failure.Position, o.Failure.Trace)
}
