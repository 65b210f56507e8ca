package promises_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/promises"
)

//go:generate go test . -run ^TestListOfPromisesIsCurrent$ -update

var update = flag.Bool("update", false, "write docs/promises.md")

// TestListOfPromisesIsCurrent compares docs/promises.md with the comments of all tests. It fails for each comment that
// is not at a test of the gate or the nightly tier.
func TestListOfPromisesIsCurrent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	all, err := promises.Read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	want := promises.List(all)
	name := filepath.Join(root, "docs", "promises.md")
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/promises.md is out of date; run `go generate ./internal/test/promises` (-comments +file):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, promise := range all {
		if seen[promise.Sentence] {
			t.Errorf("two tests make the same promise; list one of them in Also: %s", promise.Sentence)
		}
		seen[promise.Sentence] = true
	}
}

// TestPagesQuotePromises checks that each item of docs/guarantees.md and each row about a promise in
// docs/measurements.md is the sentence of a promise.
func TestPagesQuotePromises(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "..", "docs")
	list, err := os.ReadFile(filepath.Join(docs, "promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	for page, quotes := range map[string]func(string) []string{"guarantees.md": items, "measurements.md": rows} {
		text, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			t.Fatal(err)
		}
		found := quotes(string(text))
		if len(found) == 0 {
			t.Errorf("docs/%s has no promise", page)
		}
		for _, sentence := range found {
			if !strings.Contains(string(list), "\n| "+sentence+" |") {
				t.Errorf("docs/%s has a sentence that is not in docs/promises.md: %s", page, sentence)
			}
		}
	}
}

// items returns the list items of a page, each on one line.
func items(page string) []string {
	var all []string
	for paragraph := range strings.SplitSeq(page, "\n\n") {
		list, ok := strings.CutPrefix(paragraph, "- ")
		if !ok {
			continue
		}
		for item := range strings.SplitSeq(list, "\n- ") {
			all = append(all, strings.Join(strings.Fields(item), " "))
		}
	}
	return all
}

// rows returns the first cells of the tables whose first column has the title promise.
func rows(page string) []string {
	var all []string
	in := false
	for line := range strings.SplitSeq(page, "\n") {
		cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| ") || !ok:
			in = false
		case cell == "promise":
			in = true
		case in && cell != "---":
			all = append(all, cell)
		}
	}
	return all
}

// tree is a module with a promise of each form.
func tree() fstest.MapFS {
	return fstest.MapFS{
		"go.mod": {Data: []byte("module writ\n")},
		"store/store_test.go": {Data: []byte(`package store

// TestKill kills the store.
//
// Promise: Failures: A confirmed change survives
// SIGKILL.
// How: fsync precedes the answer.
// Subtest: commit
// Also: TestNight, TestConformance/open,
// runner.TestConformance
func TestKill(t *testing.T) {}

func TestConformance(t *testing.T) {}
`)},
		"runner/night_test.go": {Data: []byte(`package runner

func TestNight(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestKill")
}

func TestConformance(t *testing.T) {
	t.Run("long", func(t *testing.T) { testenv.Nightly(t, "the short form") })
}
`)},
		"tools/go.mod":          {Data: []byte("module tools\n")},
		"tools/saw/saw_test.go": {Data: []byte("package saw\n\n// Promise: Tools: The saw cuts.\nfunc TestSaw(t *testing.T) {}\n")},
	}
}

// TestPromisesAreReadFromComments checks all fields, lines that continue a field, and the names of further tests.
func TestPromisesAreReadFromComments(t *testing.T) {
	t.Parallel()
	got, err := promises.Read(tree())
	if err != nil {
		t.Fatal(err)
	}
	want := []promises.Promise{
		{Section: "Failures", Sentence: "A confirmed change survives SIGKILL.", How: "fsync precedes the answer.", Tests: []promises.Test{
			{Module: ".", Folder: "store", Name: "TestKill", Subtest: "commit"},
			{Module: ".", Folder: "runner", Name: "TestNight", Nightly: true},
			{Module: ".", Folder: "store", Name: "TestConformance", Subtest: "open"},
			{Module: ".", Folder: "runner", Name: "TestConformance"},
		}},
		{Section: "Tools", Sentence: "The saw cuts.", Tests: []promises.Test{{Module: "tools", Folder: "tools/saw", Name: "TestSaw"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	page := promises.List(got)
	row := "| A confirmed change survives SIGKILL. | fsync precedes the answer. | `TestKill/commit`, `TestConformance/open` (store); " +
		"`TestNight` (runner, *nightly*); `TestConformance` (runner) |\n"
	if !strings.Contains(page, row) || !strings.Contains(page, "`TestSaw` (tools/saw, module tools)") {
		t.Errorf("the page lacks a row:\n%s", page)
	}
}

// TestMisplacedPromiseIsRejected checks each fault of a promise comment.
func TestMisplacedPromiseIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"at a type":         {"a/a_test.go", "package a\n\n// Promise: A: B.\ntype x int\n", "belongs in the doc comment of a test"},
		"at a helper":       {"a/a_test.go", "package a\n\n// Promise: A: B.\nfunc Testing(t *testing.T) {}\n", "belongs in the doc comment of a test"},
		"at a benchmark":    {"a/a_test.go", "package a\n\n// Promise: A: B.\nfunc BenchmarkX(b *testing.B) {}\n", "belongs in the doc comment of a test"},
		"inside a test":     {"a/a_test.go", "package a\n\nfunc TestX(t *testing.T) {\n\t// Promise: A: B.\n}\n", "belongs in the doc comment of a test"},
		"in the program":    {"a/a.go", "package a\n\n// Promise: A: B.\nfunc TestX() {}\n", "belongs in the doc comment of a test"},
		"behind a tag":      {"a/a_test.go", "//go:build never\n\npackage a\n\n// Promise: A: B.\nfunc TestX(t *testing.T) {}\n", "belongs in the doc comment of a test"},
		"without a section": {"a/a_test.go", "package a\n\n// Promise: A sentence.\nfunc TestX(t *testing.T) {}\n", "a promise reads"},
		"unknown test":      {"a/a_test.go", "package a\n\n// Promise: A: B.\n// Also: TestGone\nfunc TestX(t *testing.T) {}\n", "TestGone is unknown"},
		"ambiguous test":    {"a/a_test.go", "package a\n\n// Promise: A: B.\n// Also: TestConformance\nfunc TestX(t *testing.T) {}\n", "write folder.TestConformance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := tree()
			files[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			if _, err := promises.Read(files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
