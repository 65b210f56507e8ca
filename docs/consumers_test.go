package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testsBelow returns the names of all tests below a folder.
func testsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestConsumersNameTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("consumers.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsBelow(t, "..")
	for _, found := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !tests[found[1]] {
			t.Errorf("no test is called %s", found[1])
		}
	}
}
