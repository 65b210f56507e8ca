// Package recorded reads the stores that an earlier version has written.
package recorded

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// File returns a recorded file of a directory.
func File(t *testing.T, dir, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
