package sqldb

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// Promise: Databases: A used-up quota of the disk is named, and the store continues after it was raised.
// How: After an I/O error and at each check, the store creates an unnamed file next to it.
func TestUsedUpQuotaIsNamed(t *testing.T) {
	t.Parallel()
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 256).Dir
	dir := filepath.Join(disk, "data")
	btrfs := func(args ...string) {
		t.Helper()
		if said, err := exec.Command(testenv.Need(t, "btrfs"), args...).CombinedOutput(); err != nil {
			t.Fatalf("btrfs %v: %v\n%s", args, err, said)
		}
	}
	btrfs("subvolume", "create", dir)
	btrfs("quota", "enable", disk)
	path := filepath.Join(dir, "things.db")
	db := open(t, path)
	if err := db.Write(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	btrfs("qgroup", "limit", "6M", dir)
	var err error
	for i := 0; err == nil && i < 32; i++ {
		err = db.Write(t.Context(), big(fmt.Sprintf("big %d", i)))
	}
	for what, err := range map[string]error{"write": err, "check": (&health{path: path}).check(t.Context())} {
		e := writ.AsError(err)
		if writ.CodeOf(err) != writ.CodeStoreFull || !strings.Contains(e.Message, "quota") || e.Hint == "" {
			t.Errorf("a %s without quota: %v", what, err)
		}
	}
	btrfs("qgroup", "limit", "none", dir)
	if err := db.Write(t.Context(), insert("b")); err != nil {
		t.Errorf("with a larger quota: %v", err)
	}
	if err := (&health{path: path}).check(t.Context()); err != nil {
		t.Errorf("the check with a larger quota: %v", err)
	}
}
