package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNightlyTestsNameExistingGateTests checks that each nightly test names a gate test, and that this test exists.
func TestNightlyTestsNameExistingGateTests(t *testing.T) {
	call, name, declared := regexp.MustCompile(`testenv\.Nightly\(t, "([^"]+)"\)`), regexp.MustCompile(`\bTest[A-Z]\w+`), regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	kept, tests := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range call.FindAllStringSubmatch(string(text), -1) {
			kept[found[1]] = path
		}
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[found[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) < 5 {
		t.Errorf("only %d tests of the nightly tier were found", len(kept))
	}
	for text, path := range kept {
		for _, n := range name.FindAllString(text, -1) {
			if !tests[n] {
				t.Errorf("%s names the gate test %s, which does not exist", path, n)
			}
		}
	}
}
