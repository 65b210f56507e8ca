package userns_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
	"writ/internal/userns"
)

const first = 2_145_300_000

// owner returns the owner of a file.
func owner(t *testing.T, path string) (user, group uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return s.Uid, s.Gid
}

func TestTreeIsShownWithItsUsersOwnership(t *testing.T) {
	testenv.NeedRoot(t)
	from, to := t.TempDir(), t.TempDir()
	file := filepath.Join(from, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 33, 44); err != nil {
		t.Fatal(err)
	}
	user, err := userns.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if err := userns.Show(user, from, to); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(to, unix.MNT_DETACH)
	shown := filepath.Join(to, "file")
	if u, g := owner(t, shown); u != first+33 || g != first+44 {
		t.Errorf("owner inside = %d, %d", u, g)
	}
	if err := os.Chown(shown, first+1000, first); err != nil {
		t.Fatal(err)
	}
	if u, g := owner(t, file); u != 1000 || g != 0 {
		t.Errorf("owner on the disk = %d, %d", u, g)
	}
	if err := os.Chown(shown, 0, 0); err == nil {
		t.Error("a host user got a file in a namespace without host users")
	}
}

func TestNetworkBelongsToItsUsers(t *testing.T) {
	testenv.NeedRoot(t)
	path := filepath.Join(t.TempDir(), "network")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := userns.KeepNetwork(first, path); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(path, unix.MNT_DETACH)
	user, err := userns.OfNetwork(path)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if _, err := userns.OfNetwork("/proc/self/ns/net"); err == nil || !strings.Contains(err.Error(), "host's user namespace") {
		t.Errorf("namespace of the host: %v", err)
	}
}
