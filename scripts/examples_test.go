package scripts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/scripts"
	"writ/scripts/check"
)

// Promise: Plans, scripts and manuals: Every example passes its check and runs.
// How: The test keeps the journal in memory.
func TestExamplesPassTheirCheckAndRun(t *testing.T) {
	for file, want := range map[string]struct {
		operations []string
		calls      []string // operation and name of each call
		output     map[string]any
	}{
		"hello.tengo": {
			operations: []string{"node.facts"},
			calls:      []string{"node.facts "},
			output:     map[string]any{"greeting": "hello, world", "node": "hostname--1", "cpus": int64(1)},
		},
		"fleet.tengo": {
			operations: []string{"machine.create", "network.allow", "network.create", "volume.create"},
			calls: []string{"network.create web-net", "network.allow web-net",
				"volume.create web-0", "volume.create web-0-data", "machine.create web-0",
				"volume.create web-1", "volume.create web-1-data", "machine.create web-1",
				"volume.create web-2", "volume.create web-2-data", "machine.create web-2"},
			output: map[string]any{"servers": []any{"web-0", "web-1", "web-2"}, "leader": "state-web-0-5"},
		},
		"backup.tengo": {
			operations: []string{"herodb.backup", "herodb.create", "machine.snapshot", "run.now", "volume.create", "volume.send", "volume.snapshot"},
			calls:      []string{"volume.create shop-data", "herodb.create shop-store", "volume.snapshot shop-data", "herodb.backup shop-store"},
			output: map[string]any{"label": "first", "volumes": []any{"shop-data"}, "machines": []any{}, "databases": []any{"shop-store"},
				"archives": map[string]any{}},
		},
		"service.tengo": {
			operations: []string{"container.create", "image.fetch"},
			calls:      []string{"image.fetch web", "container.create web-1", "container.create web-2", "container.create web-3"},
			output:     map[string]any{"replicas": []any{"web-1", "web-2", "web-3"}},
		},
		"web.tengo": {
			operations: []string{"herodb.create", "machine.create", "network.allow", "network.create", "volume.create"},
			calls: []string{"herodb.create store", "network.create web-net", "network.allow web-net",
				"volume.create web-0", "machine.create web-0", "volume.create web-1", "machine.create web-1"},
			output: map[string]any{"database": "address-store-1", "machines": int64(2)},
		},
		"pair.tengo": {
			operations: []string{"herodb.create", "machine.create", "volume.create"},
			calls:      []string{"herodb.create shop-db", "volume.create web-disk", "machine.create web"},
		},
		"migrate.tengo": {
			operations: []string{"container.create", "container.run", "herodb.create", "image.fetch"},
			calls:      []string{"image.fetch app", "herodb.create app-store", "container.run app-migrate", "container.create app"},
		},
		"loop.tengo": {
			operations: []string{"node.facts", "volume.create"},
			calls:      []string{"node.facts ", "volume.create work-0"},
			output:     map[string]any{"volumes": []any{"work-0"}, "cpus": int64(1)},
		},
		"handled.tengo": {
			operations: []string{"herodb.create", "volume.create"},
			calls:      []string{"herodb.create fail-store", "volume.create spare-data"},
			output:     map[string]any{"kept_in": "path-spare-data-2", "handled": "INJECTED"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("examples", file))
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := scripts.Resolve(scripts.Source{Name: file, Text: text}, nil)
			if err != nil {
				t.Fatal(err)
			}
			report := check.Check(bundle)
			if len(report.Diagnostics) > 0 {
				t.Fatal(report)
			}
			if diff := cmp.Diff(want.operations, report.Operations); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
			params, err := report.Params.Fill(nil)
			if err != nil {
				t.Fatal(err)
			}
			in := scripts.Inputs{Params: params, Allow: report.Operations, MaxCalls: 100}
			o, w := play(t, compile(t, bundle), in, nil)
			if o.Status != scripts.Completed {
				t.Fatalf("%s: %+v", o.Status, o.Failure)
			}
			var calls []string
			for _, c := range w.calls {
				calls = append(calls, c.Operation+" "+c.Name)
			}
			if diff := cmp.Diff(want.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.output, o.Output); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryExampleIsTested(t *testing.T) {
	files, err := filepath.Glob("examples/*.tengo")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, file := range files {
		if scripts.IsTest(file) {
			continue
		}
		examples++
		if tests := strings.TrimSuffix(file, ".tengo") + scripts.TestEnding; !slices.Contains(files, tests) {
			t.Errorf("%s has no %s", file, tests)
		}
	}
	if examples != 9 {
		t.Errorf("%d examples; give a new one its line in the test above", examples)
	}
}

// Tests in cmd/writ check their output.
func TestExampleTestsPassTheirCheck(t *testing.T) {
	files, err := filepath.Glob("examples/*" + scripts.TestEnding)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		report := check.Check(scripts.Bundle{Main: scripts.Source{Name: filepath.Base(file), Text: text}})
		if len(report.Diagnostics) > 0 || len(report.Tests) == 0 {
			t.Errorf("%s: %d tests\n%s", file, len(report.Tests), report)
		}
	}
}
