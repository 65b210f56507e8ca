package arch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPagesLinkToTheGlossary checks the pages for users. Decision records keep their original terms.
func TestPagesLinkToTheGlossary(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"README.md", "SECURITY.md", "docs/*.md", "docs/manual/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v, %v", pattern, pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte("(#words)")) && !bytes.Contains(text, []byte("architecture.md#words)")) {
				t.Errorf("%s has no link to the glossary; put one at its first term", page)
			}
		}
	}
}
