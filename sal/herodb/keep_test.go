//go:build linux

package herodb

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs"
)

// A run was cancelled after its backup was interrupted, so no operation follows.
func TestKeepRemovesAnInterruptedBackup(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	half := filepath.Join(filepath.Dir(b.own().Tree), "work")
	if err := os.MkdirAll(filepath.Join(half, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("it says %+v", drift)
	}
	if _, err := os.Lstat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished copy still exists: %v", err)
	}
}

// Another program disables the quotas on a node that has only databases.
func TestKeepRestoresTheQuotaOfADatabase(t *testing.T) {
	b := newFixture(t)
	disk := testenv.NewBtrfs(t, filepath.Join(b.host, "pool"), 512)
	t.Cleanup(func() { wipe(t, b.host) }) // before the disk is unmounted
	b.Trees = smallTrees{btrfs.New(btrfs.Config{Dir: disk.Dir})}
	b.do("herodb.create", spec, writ.ChangeCreated)
	if said, err := exec.Command(testenv.Need(t, "btrfs"), "quota", "disable", disk.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	drift := b.keep()
	if len(drift) != 2 || !drift[0].Mended || !strings.Contains(drift[0].What, "quota was wrong") ||
		!strings.Contains(drift[1].What, "quotas were off") {
		t.Errorf("drift = %+v", drift)
	}
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("drift later = %+v", drift)
	}
}

// A runner was killed between the snapshot and the new limit of the tree, which depends on the number of snapshots.
func TestRepeatedBackupSetsTheQuota(t *testing.T) {
	b := newFixture(t)
	disk := testenv.NewBtrfs(t, filepath.Join(b.host, "pool"), 512)
	t.Cleanup(func() { wipe(t, b.host) }) // before the disk is unmounted
	on := func(step func(string)) sal.Trees {
		return smallTrees{btrfs.New(btrfs.Config{Dir: disk.Dir, Step: step})}
	}
	b.Trees = on(nil)
	b.do("herodb.create", spec, writ.ChangeCreated)
	b.Trees = on(func(step string) {
		if step == "bound the tree" {
			runtime.Goexit()
		}
	})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		_, _ = b.try("herodb.backup", nightly)
		t.Error("it was not interrupted")
	}()
	<-killed
	b.Trees = on(nil)
	b.do("herodb.backup", nightly, writ.ChangeUnchanged)
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("it says %+v", drift)
	}
}
