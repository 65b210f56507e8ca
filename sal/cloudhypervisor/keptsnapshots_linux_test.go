package cloudhypervisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// withDisk makes the machine web with a disk and writes some MiB to it.
func (b *fixture) withDisk(mib int) {
	b.Helper()
	b.must("machine.create", "web", with(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")}))
	f, err := os.OpenFile(filepath.Join(b.host, "volumes/root", sal.DiskName), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{1}, mib<<20), 0)
	}
	if err == nil {
		err = f.Sync() // blocks count only when they are on disk
	}
	if err != nil {
		b.Fatal(err)
	}
	f.Close()
}

func (b *fixture) snapshotFiles() []string {
	b.Helper()
	names, err := sal.FileNames(filepath.Join(b.dirOf(machine("web")), "snapshots"))
	if err != nil {
		b.Fatal(err)
	}
	return names
}

// Promise: Volumes and images: Snapshots of machines count for the node, the usage and `--project-disk`.
// How: The record has the largest possible size before the first byte and the actual size at the end; a crash leaves
// no unrecorded file.
// Also: TestSnapshotNeedsRoomOfItsProject, TestKeepSweepsInterruptedSnapshots, TestSnapshotsCountForTheirNode.
func TestSnapshotsCountUntilDeleted(t *testing.T) {
	b := newFixture(t)
	b.withDisk(8)
	if got := b.must("machine.snapshot", "web", before); got["disk_gib"] != int64(1) {
		t.Errorf("with a snapshot it uses %v GiB", got["disk_gib"])
	}
	usage, err := b.Usage(t.Context(), machine("web"))
	project, failed := b.SnapshotBytes(machine("web").Project)
	if err != nil || failed != nil || usage.DiskGiB != 1 || project < 8<<20 {
		t.Errorf("it is charged for %d GiB, its project for %d bytes: %v %v", usage.DiskGiB, project, err, failed)
	}
	if other, err := b.SnapshotBytes("other"); other != 0 || err != nil {
		t.Errorf("another project is charged for %d bytes, %v", other, err)
	}
	for range 2 { // twice, as after a crash
		got := b.must("machine.delete_snapshot", "web", before)
		if got["disk_gib"] != int64(0) || got["snapshots"] != nil || len(b.snapshotFiles()) != 0 {
			t.Errorf("deleted: %v, files %v", got, b.snapshotFiles())
		}
	}
	if project, err := b.SnapshotBytes(machine("web").Project); project != 0 || err != nil {
		t.Errorf("its project is charged for %d bytes still, %v", project, err)
	}
	b.refuses("machine.restore", "web", before, writ.CodeResourceUnknown)
	b.keeps("web", "", false)
}

func TestSnapshotNeedsRoomOfItsProject(t *testing.T) {
	b := newFixture(t)
	b.withDisk(8)
	var asked sal.Bound
	b.Room = func(_ context.Context, _ string, bound sal.Bound) error {
		asked = bound
		return writ.Errorf(writ.CodeQuotaExceeded, "no room")
	}
	b.refuses("machine.snapshot", "web", before, writ.CodeQuotaExceeded, "no room")
	if asked.Project != machine("web").Project || asked.Bytes < (256+8)<<20 {
		t.Errorf("it asked for %+v", asked)
	}
	if r := b.record("web").Own; r.Writing != 0 || len(b.snapshotFiles()) != 0 {
		t.Errorf("%d bytes stay reserved, files %v", r.Writing, b.snapshotFiles())
	}
}

func TestKeepSweepsInterruptedSnapshots(t *testing.T) {
	b := newFixture(t)
	b.withDisk(8)
	b.must("machine.snapshot", "web", before)
	for _, left := range []string{"work", "snapshots/lost"} {
		if err := os.MkdirAll(filepath.Join(b.dirOf(machine("web")), left), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.change("web", func(o *own) {
		o.Writing = 1 << 40
		k := o.Kept["before"]
		k.Bytes = 0 // as recorded by an earlier version
		o.Kept["before"] = k
	})
	b.keeps("web", "", false)
	if _, err := os.Lstat(filepath.Join(b.dirOf(machine("web")), "work")); err == nil || len(b.snapshotFiles()) != 1 {
		t.Errorf("remaining files = %v", b.snapshotFiles())
	}
	if bytes, err := b.SnapshotBytes(machine("web").Project); bytes < 8<<20 || bytes > 1<<30 || err != nil {
		t.Errorf("its project is charged for %d bytes, %v", bytes, err)
	}
}
