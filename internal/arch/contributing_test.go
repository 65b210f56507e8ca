package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// namedFile matches the files and directories that a page names in backquotes: a path, or a file of the root.
var namedFile = regexp.MustCompile("`((?:\\.?[a-z0-9_]+/)+[a-z0-9_.]*|[A-Za-z_.]+\\.(?:go|md|yml|ini))`")

// TestContributingNamesFilesThatExist checks the files named in CONTRIBUTING.md, so that a moved file is updated there.
func TestContributingNamesFilesThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := namedFile.FindAllSubmatch(text, -1)
	if len(files) == 0 {
		t.Error("CONTRIBUTING.md names no file")
	}
	for _, m := range files {
		name := string(m[1])
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which is not there", name)
		}
	}
}
