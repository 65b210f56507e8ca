package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// namedFile matches the files and folders that a page names between backquotes: a path, or a file of the root.
var namedFile = regexp.MustCompile("`((?:\\.?[a-z0-9_]+/)+[a-z0-9_.]*|[A-Za-z_.]+\\.(?:go|md|yml|ini))`")

// TestContributingNamesFilesThatExist follows the lists of files to touch: a file that moved moves there, too.
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
