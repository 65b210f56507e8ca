package junit

import (
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestResultsLookAsOthersReadThem(t *testing.T) {
	suites := []Suite{
		{Name: "web_test.tengo", Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Took: 1234 * time.Millisecond, Cases: []Case{
			{Name: "test_good", Class: "web_test", File: "dir/web_test.tengo", Line: 3, Took: 30 * time.Millisecond, Output: "made <m> & more\n"},
			{Name: "test_bad", Class: "web_test", Took: time.Second, Failure: &Problem{Message: `got 1, want "2"`, Text: "web_test.tengo:7:2: got 1, want \"2\"\n\x1b[2J\x00]]>"}},
			{Name: "test_skip", Class: "web_test", Skipped: &Problem{Message: "later"}},
		}},
		{Name: "broken_test.tengo", Cases: []Case{{Name: "check", Class: "broken_test", Error: &Problem{Message: "1 error", Text: "error[W0001]"}}}},
		{Name: "empty_test.tengo"},
	}
	var b strings.Builder
	if err := Write(&b, "writ test", suites); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "results.xml")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := xml.Unmarshal([]byte(b.String()), new(struct{})); err != nil {
		t.Errorf("it is not XML: %v", err)
	}
}
