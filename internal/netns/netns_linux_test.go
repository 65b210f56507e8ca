package netns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/netns"
	"writ/internal/test/testenv"
)

// A thread left in another namespace would do later work there.
func TestAsideRestoresEveryThread(t *testing.T) {
	testenv.NeedRoot(t)
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := netns.Aside(func() error {
			if there, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || there == home {
				t.Errorf("aside is %s, %v", there, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		if at, err := os.Readlink(path); err == nil && at != home {
			t.Errorf("%s is %s, and home is %s", path, at, home)
		}
	}
}

// `ip netns add` binds its directory to itself unless that is a mount point. The lower mounts of earlier namespaces
// would stay, and their files could not be removed.
func TestNamespaceOutlastsIPNetns(t *testing.T) {
	testenv.NeedRoot(t)
	const dir = "/run/netns"
	for _, before := range []bool{false, true} {
		t.Run(map[bool]string{false: "Empty", true: "WithOthers"}[before], func(t *testing.T) {
			ownRun(t)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if before {
				addNamed(t, "other")
			}
			if err := netns.Prepare(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "own")
			if err := os.WriteFile(path, nil, 0o444); err != nil {
				t.Fatal(err)
			}
			if err := netns.Make(path); err != nil {
				t.Fatal(err)
			}
			addNamed(t, "later")
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		})
	}
}

// An earlier version left namespaces in a directory that is no mount point. A bind mount would hide or double them.
func TestPrepareKeepsExistingNamespaces(t *testing.T) {
	testenv.NeedRoot(t)
	ownRun(t)
	path := "/run/netns/own"
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	if err := netns.Prepare(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

// ownRun gives the test an empty /run. Only the thread of the test sees it, and ends with the test.
func ownRun(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
}

func addNamed(t *testing.T, name string) {
	t.Helper()
	if out, err := exec.Command(testenv.Need(t, "ip"), "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("ip netns add %s: %v: %s", name, err, out)
	}
}
