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

// A full tree has room for nothing, and its copies begin with its limit.
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
