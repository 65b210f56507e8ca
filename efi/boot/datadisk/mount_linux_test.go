package datadisk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/test/testenv"
)

const nodeDir = "/var/lib/writ/node"

// leave creates a journal entry. btrfs only logs files that are already in a committed transaction.
func leave(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, sync := range []func(fd int) error{unix.Syncfs, unix.Fsync} {
		if _, err := file.WriteString("of a machine that runs"); err != nil {
			t.Fatal(err)
		}
		if err := sync(int(file.Fd())); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk with the data label may belong to a machine that lost power, or to a running machine. Unless it belongs to
// this node, not even its journal is replayed.
func TestADiskIsLookedAtBeforeItsJournalIsWritten(t *testing.T) {
	own := func(err error) func() error { return func() error { return err } }
	other := writ.Errorf(writ.CodeConflict, "the disk is that of another node")
	for kind, open := range map[string]func(testing.TB, string, int64) *testenv.Disk{"ext4": testenv.NewDisk, "btrfs": testenv.NewBtrfs} {
		for _, tt := range []struct {
			name string
			own  func() error
			says string // expected error, "" if it is mounted
		}{
			{"photo", own(nil), "not belong to a node: photo"},
			{filepath.Base(nodeDir), own(other), "that of another node"},
			{filepath.Base(nodeDir), own(nil), ""},
		} {
			t.Run(kind+" "+tt.says, func(t *testing.T) {
				dir, at := filepath.Join(t.TempDir(), "there"), t.TempDir()
				there := open(t, dir, 128)
				leave(t, filepath.Join(dir, tt.name, "file"))
				file := there.Cut()
				before, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				d := dataDisk{device: testenv.Attach(t, file), kind: kind}
				err = d.mount(at, nodeDir, tt.own)
				if tt.says == "" {
					if err == nil {
						err = errors.Join(os.WriteFile(filepath.Join(at, "journal"), nil, 0o600), unmount(at))
					}
					if err != nil {
						t.Errorf("the disk of a node cannot be written: %v", err)
					}
					return
				}
				if writ.CodeOf(err) != writ.CodeConflict || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("it is mounted: %v", err)
				}
				if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
					t.Errorf("it was written to: %v", err)
				}
				if entries, err := os.ReadDir(at); err != nil || len(entries) > 0 {
					t.Errorf("it is mounted still: %v, %v", entries, err)
				}
			})
		}
	}
}

// If the node's directory were a symbolic link, the runner would write to another place.
func TestLinkIsRefusedAsNodeDirectory(t *testing.T) {
	dir, d := t.TempDir(), dataDisk{device: "/dev/vda"}
	if err := os.Symlink("/etc", filepath.Join(dir, filepath.Base(nodeDir))); err != nil {
		t.Fatal(err)
	}
	if err := d.check(dir, nodeDir, func() error { return nil }); writ.CodeOf(err) != writ.CodeConflict || !strings.Contains(err.Error(), "node (no directory)") {
		t.Errorf("it is one of a node: %v", err)
	}
}
