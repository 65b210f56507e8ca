//go:build cgo

package btrfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"writ/sal"
)

// A full tree has no free space, and its copies start with its limit.
func TestFullTreeIsCopiedAndRestored(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		ctx, bound := t.Context(), sal.Bound{Bytes: 2 * mib}
		tree := must[string](t)(p.Make(ctx, "a", bound))
		if n, err := fill(t, tree, 200); !errors.Is(err, unix.EDQUOT) {
			t.Fatalf("a tree of 2 MiB took %d: %v", n, err)
		}
		syncAll(t, p.dir)
		if err := p.Snapshot(ctx, "a", "s"); err != nil {
			t.Fatal(err)
		}
		must[string](t)(p.Copy(ctx, "same", bound, "a", "s"))
		larger := must[string](t)(p.Copy(ctx, "larger", sal.Bound{Bytes: 16 * mib}, "a", ""))
		if err := os.WriteFile(filepath.Join(larger, "more"), make([]byte, 8*mib), 0o600); err != nil {
			t.Errorf("a larger copy: %v", err)
		}
		if err := p.Restore(ctx, "a", "s"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"a", "same", "larger"} {
			if n, err := fill(t, p.Path(name), 300); !errors.Is(err, unix.EDQUOT) {
				t.Errorf("the tree %s has no limit: %d MiB, %v", name, n, err)
			}
		}
	})
}

// TestCopiesKeepLimitsInForce writes to trees of a project after a snapshot, a clone and a restoration.
func TestCopiesKeepLimitsInForce(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		ctx, bound := t.Context(), sal.Bound{Bytes: 2 * mib, Project: "p"}
		limited := func(after string) {
			t.Helper()
			syncAll(t, p.dir)
			if wrong, err := inconsistent(p.dir); err != nil || wrong {
				t.Errorf("after %s, quotas are inconsistent: %v", after, err)
			}
			dir := must[string](t)(p.Make(ctx, "after-"+after, bound))
			if n, err := fill(t, dir, 100); !errors.Is(err, unix.EDQUOT) {
				t.Errorf("after %s, a tree of 2 MiB took %d: %v", after, n, err)
			}
		}
		tree := must[string](t)(p.Make(ctx, "a", bound))
		if err := os.WriteFile(filepath.Join(tree, "some"), make([]byte, mib), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Snapshot(ctx, "a", "s"); err != nil {
			t.Fatal(err)
		}
		limited("snapshot")
		must[string](t)(p.Copy(ctx, "b", bound, "a", ""))
		limited("clone")
		if err := p.Restore(ctx, "a", "s"); err != nil {
			t.Fatal(err)
		}
		limited("restore")
		if err := errors.Join(p.Remove(ctx, "b"), p.Remove(ctx, "a")); err != nil {
			t.Fatal(err)
		}
		limited("remove")
	})
}
