package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/sal"
	"writ/sal/saltest"
)

func TestTreesConformance(t *testing.T) {
	saltest.RunTrees(t, saltest.TreesSuite{Open: func(_ testing.TB, host string, step func(string)) sal.Trees {
		return &Trees{Dir: host, Step: step}
	}})
}

// A process may create links in a tree while it is copied. They must not lead to the content of another tree.
//
// Promise: Speed and storage: A copy or snapshot of a plain directory contains only its own tree, also if its owner
// changes it meanwhile.
// How: Files are opened below the tree only; limits apply during writing; an empty copy leaves no file.
// Also: TestArchiveLengthIsLimitedByItsVolume, TestFailedCopyLeavesNoVolume.
func TestACopyHasNoFilesOfOtherTrees(t *testing.T) {
	const secret = "of another tree"
	trees := &Trees{Dir: t.TempDir()}
	for _, name := range []string{"mine", "theirs"} {
		dir, err := trees.Make(t.Context(), name, sal.Bound{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "d", "file"), []byte(map[string]string{"theirs": secret}[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exchanged := false
	trees.Step = func(step string) {
		if mine := filepath.Join(trees.Path("mine"), "d"); step == "make d" && !exchanged {
			exchanged = true
			if err := os.RemoveAll(mine); err != nil {
				t.Error(err)
			}
			if err := os.Symlink("../../theirs/data/d", mine); err != nil {
				t.Error(err)
			}
		}
	}
	err := trees.Snapshot(t.Context(), "mine", "s")
	if !exchanged {
		t.Fatalf("no directory was copied: %v", err)
	}
	copied := false
	walked := filepath.WalkDir(filepath.Join(trees.Dir, "trees", "mine"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			copied = copied || strings.Contains(string(text), secret)
		}
		return err
	})
	if copied || walked != nil {
		t.Errorf("snapshot has content of another tree: %t, %v", copied, walked)
	}
}

// A copy that fails may have filled the disk.
func TestAFailedCopyFreesItsSpace(t *testing.T) {
	trees := &Trees{Dir: t.TempDir()}
	dir, err := trees.Make(t.Context(), "a", sal.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	trees.Step = func(step string) {
		if step == "write file" {
			cancel()
		}
	}
	if err := trees.Snapshot(ctx, "a", "s"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the snapshot ended with %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(trees.Dir, "trees", "a", "work")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left %v, %v", left, err)
	}
}
