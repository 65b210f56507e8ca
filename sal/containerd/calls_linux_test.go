package containerd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
)

// A container with a volume on btrfs can share blocks of files there, but cannot make a subvolume with any form of the
// request.
//
// Promise: Volumes and images: A container cannot create subvolumes in its volumes.
// How: A system call filter allows only the btrfs requests for shared blocks.
func TestAContainerMakesNoSubvolumes(t *testing.T) {
	testenv.NeedRoot(t)
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	data := filepath.Join(b.host, "volumes", "data")
	testenv.NewBtrfs(t, data, 128)
	build := exec.Command("go", "build", "-o", filepath.Join(data, "asks"), "./testdata/asks")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "command": waits, "cpus": int64(1), "memory_mib": int64(64),
		"volumes": []any{map[string]any{"volume": map[string]any{"kind": "volume", "name": "data", "uid": "u"}, "path": "/data"}},
	})
	want := []string{
		"SNAP_CREATE: 1", "SUBVOL_CREATE: 1", "SUBVOL_CREATE in 64 bits: 1", "SNAP_CREATE_V2: 1", "SUBVOL_CREATE_V2: 1", "SUBVOL_SETFLAGS: 1",
		"FICLONE: 0", "FICLONE in 64 bits: 0", "FS_IOC_GETFLAGS: 0", "FIONREAD: 0",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(b.sh("web", "/data/asks /data")), "\n")); diff != "" {
		t.Errorf("in the container:\n%s", diff)
	}
	if said, err := exec.Command(filepath.Join(data, "asks"), data).CombinedOutput(); err != nil || !strings.Contains(string(said), "SNAP_CREATE: 0") {
		t.Errorf("and beside it nothing is asked for either: %v\n%s", err, said)
	}
}

// A file in a volume must not give rights to any user, not even in the next container, whatever its owner is there.
//
// Promise: Secrets: setuid files and devices in a volume give a container no rights.
// How: Volumes are mounted `nosuid,nodev`.
func TestVolumesIgnoreSetuidAndDevices(t *testing.T) {
	testenv.NeedRoot(t)
	b := newFixture(t, testenv.HomeInMemory(t, "containerd"))
	if err := os.MkdirAll(filepath.Join(b.host, "volumes", "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "command": waits, "cpus": int64(1), "memory_mib": int64(64),
		"volumes": []any{map[string]any{"volume": map[string]any{"kind": "volume", "name": "data", "uid": "u"}, "path": "/data"}},
	})
	for _, path := range []string{"/data", "/etc/hosts"} {
		options := b.sh("web", "grep ' "+path+" ' /proc/mounts | cut -d' ' -f4")
		if all := strings.Split(strings.TrimSpace(options), ","); !slices.Contains(all, "nosuid") || !slices.Contains(all, "nodev") {
			t.Errorf("%s is mounted with %s", path, options)
		}
	}
}
