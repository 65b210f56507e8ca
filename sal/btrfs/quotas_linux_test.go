//go:build cgo

package btrfs

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// runBtrfs runs the real tool.
func runBtrfs(t *testing.T, args ...string) {
	t.Helper()
	if said, err := exec.Command(testenv.Need(t, "btrfs"), args...).CombinedOutput(); err != nil {
		t.Fatalf("btrfs %v: %v: %s", args, err, said)
	}
}

func TestQuotasComeBackAfterDisable(t *testing.T) {
	kinds(t, func(t *testing.T, p *Pool) {
		bound := sal.Bound{Bytes: 8 * mib, Project: "default"}
		dir := must[string](t)(p.Make(t.Context(), "a", bound))
		runBtrfs(t, "quota", "disable", p.dir)

		err := limitGroup(p.dir, 1, 1)
		if e := writ.AsError(err); writ.CodeOf(err) != writ.CodeDriverFailed ||
			!strings.Contains(e.Message, "quotas are off at "+p.dir) || e.Hint == "" {
			t.Errorf("a limit without quotas: %v", err)
		}
		drift, err := p.Keep(t.Context(), "a", bound)
		if err != nil || len(drift) < 2 {
			t.Errorf("after `btrfs quota disable`: %+v, %v", drift, err)
		}
		for _, d := range drift {
			if !d.Mended {
				t.Errorf("drift that stays: %s", d.What)
			}
		}
		if written, err := fill(t, dir, 64); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("the tree holds %d MiB of 8, %v", written, err)
		}

		runBtrfs(t, "quota", "disable", p.dir)
		other := must[string](t)(p.Make(t.Context(), "b", bound))
		if written, err := fill(t, other, 64); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("another tree holds %d MiB of 8, %v", written, err)
		}
	})
}

func TestInconsistentQuotasAreRescanned(t *testing.T) {
	t.Parallel()
	dir := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 256).Dir
	runBtrfs(t, "quota", "enable", dir)
	p := New(Config{Dir: filepath.Join(dir, "pool")})
	bound := sal.Bound{Bytes: 32 * mib}
	tree := must[string](t)(p.Make(t.Context(), "a", bound))
	if _, err := fill(t, tree, 4); err != nil {
		t.Fatal(err)
	}
	if err := p.Snapshot(t.Context(), "a", "s"); err != nil { // the blocks are shared from now on
		t.Fatal(err)
	}
	id := must[uint64](t)(subvolumeID(tree))
	for round, ago := range []time.Duration{0, rescanPauseLeast} { // since the last rescan
		p.quotas.rescanned = p.quotas.rescanned.Add(-ago)
		runBtrfs(t, "filesystem", "sync", dir)
		runBtrfs(t, "quota", "rescan", "-w", dir)
		group := fmt.Sprint("1/", round+1)
		runBtrfs(t, "qgroup", "create", group, dir)
		runBtrfs(t, "qgroup", "assign", "--no-rescan", fmt.Sprint("0/", id), group, dir)
		if wrong, err := inconsistent(dir); err != nil || !wrong {
			t.Skipf("this kernel keeps them consistent: %v", err)
		}
		if drift, err := p.Keep(t.Context(), "a", bound); err != nil || len(drift) > 0 {
			t.Errorf("inconsistent quotas: %+v, %v", drift, err)
		}
		runBtrfs(t, "quota", "rescan", "-W", dir) // waits
		if wrong, err := inconsistent(dir); err != nil || wrong {
			t.Errorf("round %d: quotas stay inconsistent: %v", round, err)
		}
	}
}

func TestRescansAreRare(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Minute, time.Second: time.Minute, 30 * time.Second: 10 * time.Minute, 10 * time.Minute: time.Hour,
	} {
		if got := rescanPause(took); got != want {
			t.Errorf("after a rescan of %s: a pause of %s, want %s", took, got, want)
		}
	}
}
