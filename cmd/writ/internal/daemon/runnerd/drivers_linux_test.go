package runnerd

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/needs"
)

// volumesOf returns the name of the volume driver that a node gets.
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

// bounded returns the finding about btrfs for a node with its data in dir.
func bounded(t *testing.T, dir string) needs.Finding {
	t.Helper()
	found, err := HostNeeds(t.Context(), dir, HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(f needs.Finding) bool { return f.Module == "volume" && f.Need == "btrfs" })
	return found[i]
}

func TestANodeKeepsTheKindOfVolumesThatItHas(t *testing.T) {
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 128).Dir
	if got := volumesOf(t, filepath.Join(disk, "fresh")); got != "btrfs" || bounded(t, disk).State != needs.OK {
		t.Errorf("on btrfs it gets %s volumes", got)
	}
	old := filepath.Join(disk, "old")
	if err := os.MkdirAll(filepath.Join(old, "volumes", "records", "v.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := volumesOf(t, old); got != "directory" {
		t.Errorf("with plain volumes on btrfs it gets %s volumes", got)
	}
	plain := t.TempDir()
	if got := volumesOf(t, plain); got != "directory" && bounded(t, plain).State != needs.OK {
		t.Errorf("elsewhere it gets %s volumes", got)
	}
	if f := bounded(t, "/proc"); f.State != needs.Degraded || f.Use == "" || f.Fix == "" {
		t.Errorf("finding about /proc = %+v", f)
	}
}

// Existing resources are maintained even if their tool is unavailable: a daemon may start after the node, and a program
// may be replaced.
func TestNodeMaintainsResourcesWithoutTheirTools(t *testing.T) {
	if !alone(t) {
		return
	}
	t.Setenv("PATH", t.TempDir())
	modules := func(dir string) (all []string) {
		config := driverConfig{Choice: DriversHost, Dir: dir, Host: HostConfig{Containerd: filepath.Join(dir, "no.sock"), ProcessUsers: noUsers, ContainerIDs: noUsers}, Log: slog.New(slog.DiscardHandler)}
		opened, err := openDrivers(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.close()
		for _, d := range opened.all {
			if m := d.Describe().Module; m == "container" || m == "herodb" || m == "machine" {
				all = append(all, m)
			}
		}
		slices.Sort(all)
		return all
	}
	dir := t.TempDir()
	if got := modules(dir); len(got) > 0 {
		t.Errorf("without tools it has %q", got)
	}
	want := []string{"container", "herodb", "machine"}
	for _, module := range want {
		if err := os.MkdirAll(filepath.Join(dir, module, "records", "x.json"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := modules(dir); !slices.Equal(got, want) {
		t.Errorf("with something of each it has %q", got)
	}
}

// Two nodes in one network namespace would treat each other's links and rules as orphans.
//
// Promise: Volumes and images: Only one node changes a network namespace.
// How: The kernel grants a name to one process at a time.
func TestOneNodeChangesAHost(t *testing.T) {
	if !alone(t) {
		return
	}
	config := driverConfig{Choice: DriversHost, Dir: t.TempDir(), Host: HostConfig{ProcessUsers: noUsers, ContainerIDs: noUsers}, Log: slog.New(slog.DiscardHandler)}
	first, err := openDrivers(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	config.Dir = t.TempDir()
	if _, err := openDrivers(t.Context(), config); writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
		t.Errorf("a second one: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	next, err := openDrivers(t.Context(), config)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := next.close(); err != nil {
		t.Fatal(err)
	}
}

func TestSharesOfADiskNeedOneThatKeepsThem(t *testing.T) {
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 128).Dir
	for name, c := range map[string]struct {
		driverConfig
		code writ.Code
	}{
		"on btrfs":     {driverConfig{Choice: DriversAuto, Dir: disk, Host: HostConfig{ProjectGiB: 10}}, ""},
		"simulated":    {driverConfig{Choice: DriversSimulated, Dir: disk, Host: HostConfig{ProjectGiB: 10}}, writ.CodeUsage},
		"elsewhere":    {driverConfig{Choice: DriversAuto, Dir: "/dev/shm/" + filepath.Base(t.TempDir()) + "-writ", Host: HostConfig{ProjectGiB: 10}}, writ.CodeUsage},
		"less than no": {driverConfig{Choice: DriversAuto, Dir: disk, Host: HostConfig{ProjectGiB: -1}}, writ.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "elsewhere" {
				t.Cleanup(func() { _ = os.RemoveAll(c.Dir) })
			}
			opened, err := openDrivers(t.Context(), c.driverConfig)
			if writ.CodeOf(err) != c.code || c.code == "" && err != nil {
				t.Fatalf("openDrivers = %v, want %s", err, c.code)
			}
			if err == nil {
				_ = opened.close()
			}
		})
	}
	trees := openStorage(disk, driverConfig{Host: HostConfig{ProjectGiB: 10}}).trees
	for bytes, want := range map[int64]writ.Code{10 << 30: "", 10<<30 + 1: writ.CodeQuotaExceeded} {
		if err := trees.Room(t.Context(), "data", sal.Bound{Bytes: bytes, Project: "p"}); writ.CodeOf(err) != want {
			t.Errorf("room for %d bytes: %v, want %q", bytes, err, want)
		}
	}
}

// TestMachineSnapshotsCountForTheirProject writes the record of a machine with a snapshot of 6 GiB, and then requests
// space for the same project.
func TestMachineSnapshotsCountForTheirProject(t *testing.T) {
	type kept struct {
		Bytes int64 `json:"bytes"`
	}
	type own struct {
		Kept map[string]kept `json:"kept"`
	}
	disk := testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 128).Dir
	records := &sal.Records[own]{Dir: filepath.Join(machineDir(disk), "records")}
	web := writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web"}
	if err := records.Put(&sal.Record[own]{Resource: web, UID: "u", Own: own{map[string]kept{"before": {6 << 30}}}}); err != nil {
		t.Fatal(err)
	}
	trees := openStorage(disk, driverConfig{Host: HostConfig{ProjectGiB: 10}}).trees
	for project, want := range map[writ.ProjectID]writ.Code{"p": writ.CodeQuotaExceeded, "other": ""} {
		if err := trees.Room(t.Context(), "data", sal.Bound{Bytes: 5 << 30, Project: project}); writ.CodeOf(err) != want {
			t.Errorf("room for 5 of 10 GiB in project %s: %v", project, err)
		}
	}
}
