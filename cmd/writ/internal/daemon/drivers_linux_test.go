package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"writ"
	"writ/internal/testenv"
)

// volumesOf is the name of the volume driver that a node gets.
func volumesOf(t *testing.T, dir string) string {
	t.Helper()
	opened, err := openDrivers(t.Context(), driverConfig{Choice: DriversAuto, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	images := false
	name := ""
	for _, d := range opened.all {
		about := d.Describe()
		images = images || about.Module == "image" && !about.Simulated
		if about.Module == "volume" {
			name = about.Name
		}
	}
	if !images {
		t.Error("images are simulated")
	}
	return name
}

func TestANodeKeepsTheKindOfVolumesThatItHas(t *testing.T) {
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 128).Dir
	if got := volumesOf(t, filepath.Join(disk, "fresh")); got != "btrfs" || BoundedVolumes(disk) != nil {
		t.Errorf("on btrfs it gets %s volumes", got)
	}
	old := filepath.Join(disk, "old")
	if err := os.MkdirAll(filepath.Join(old, "volumes", "records", "v.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := volumesOf(t, old); got != "directory" {
		t.Errorf("with plain volumes on btrfs it gets %s volumes", got)
	}
	if got := volumesOf(t, t.TempDir()); got != "directory" && BoundedVolumes(t.TempDir()) != nil {
		t.Errorf("elsewhere it gets %s volumes", got)
	}
	if err := BoundedVolumes("/proc"); writ.CodeOf(err) != writ.CodeDriverMissing || writ.AsError(err).Hint == "" {
		t.Errorf("of /proc it says %v", err)
	}
}
