//go:build cgo

package btrfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
	"writ/sal"
)

// repeatedly runs btrfs with each line of arguments again and again, until stop is called. stop returns the number of
// runs without an error.
func repeatedly(t *testing.T, lines ...[]string) (stop func() int) {
	t.Helper()
	btrfs := testenv.Need(t, "btrfs")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	counts := make([]int, len(lines))
	for i, line := range lines {
		all.Go(func() {
			for ctx.Err() == nil {
				if exec.Command(btrfs, line...).Run() == nil {
					counts[i]++
				}
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		least := counts[0]
		for _, n := range counts {
			least = min(least, n)
		}
		return least
	}
}

// TestPoolWorksDuringRescans uses a pool with full quotas during rescans of quotas, scans of devices and balances.
func TestPoolWorksDuringRescans(t *testing.T) {
	testenv.Nightly(t, "TestInconsistentQuotasAreRescanned")
	t.Parallel()
	dir := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 1<<10).Dir
	runBtrfs(t, "quota", "enable", dir)
	for i := range 1000 { // work for a rescan
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 8<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Config{Dir: filepath.Join(dir, "pool")})
	stop := repeatedly(t, []string{"quota", "rescan", dir}, []string{"device", "scan"},
		[]string{"balance", "start", "-musage=50", "-dusage=50", dir})
	ctx, bound := t.Context(), sal.Bound{Bytes: 16 * mib}
	for range 4 {
		tree := must[string](t)(p.Make(ctx, "a", bound))
		if n, err := fill(t, tree, 100); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("a tree of 16 MiB took %d: %v", n, err)
		}
		err := p.Snapshot(ctx, "a", "s")
		if err == nil {
			_, err = p.Copy(ctx, "b", bound, "a", "s")
		}
		if err == nil {
			_, err = p.Make(ctx, "a", sal.Bound{Bytes: 24 * mib})
		}
		if err == nil {
			err = p.Restore(ctx, "a", "s")
		}
		if err != nil {
			t.Error(err)
		}
		if drift, err := p.Keep(ctx, "a", bound); err != nil || len(drift) > 0 {
			t.Errorf("a check finds %+v, %v", drift, err)
		}
		if err := errors.Join(p.Remove(ctx, "b"), p.Remove(ctx, "a")); err != nil {
			t.Error(err)
		}
	}
	if stop() == 0 {
		t.Error("nothing ran meanwhile")
	}
}
