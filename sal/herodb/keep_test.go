//go:build linux

package herodb

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
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
		t.Errorf("it says %+v", drift)
	}
	if drift := b.keep(); len(drift) > 0 {
		t.Errorf("later it says %+v", drift)
	}
}
