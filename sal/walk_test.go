package sal

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"writ"
)

// walkTree returns a walk through a tree with the files a/b/c, a/d and e.
func walkTree(t *testing.T) *Walk {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/c", "a/d", "e"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &Walk{Root: root, Enter: func(string, fs.FileInfo) error { return nil }}
}

func TestWalkVisitsInOrder(t *testing.T) {
	w := walkTree(t)
	var got []string
	w.Enter = func(name string, _ fs.FileInfo) error {
		got = append(got, name)
		if name == "a" {
			return w.Root.Remove("e") // an entry that disappears
		}
		return nil
	}
	w.Leave = func(name string, _ fs.FileInfo) error {
		got = append(got, "leave "+name)
		return nil
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{".", "a", "a/b", "a/b/c", "leave a/b", "a/d", "leave a", "leave ."}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

func TestWalkBoundsItsMemory(t *testing.T) {
	w := walkTree(t)
	if err := w.Run(t.Context()); err != nil || w.held != 0 {
		t.Fatalf("after the walk it holds %d bytes, %v", w.held, err)
	}
	if err := w.Hold(maxWalkMemory - 100); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("with 100 bytes left: %v, want %s", err, writ.CodeQuotaExceeded)
	}
}
