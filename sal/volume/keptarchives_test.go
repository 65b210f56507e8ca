package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/saltest"
)

// archiveFiles returns the names of the files in the backup directories.
func (b *fixture) archiveFiles() (names []string) {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(b.Dir, "backups", "*", "*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}

func send(name string) map[string]any { return map[string]any{"backup": name} }

func TestArchivesOfAVolumeAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
		var sent map[string]any
		for i := range maxArchives {
			sent = b.must("volume.send", "data", send(fmt.Sprint("b", i)))
		}
		if len(sent["backups"].([]any)) != maxArchives || sent["disk_gib"] != int64(2) {
			t.Errorf("it has the archives %v and uses %v GiB", sent["backups"], sent["disk_gib"])
		}
		data := saltest.Resource(writ.KindVolume, "data")
		if usage, err := b.Usage(t.Context(), data); err != nil || usage.DiskGiB != 2 {
			t.Errorf("its usage is %+v, %v", usage, err)
		}
		if _, err := b.do("volume.send", "data", send("more")); writ.CodeOf(err) != writ.CodeQuotaExceeded {
			t.Errorf("one archive too many: %v", err)
		}
		if discarded := b.must("volume.discard", "data", send("b3")); slices.Contains(discarded["backups"].([]any), any("b3")) {
			t.Errorf("after its deletion the archives are %v", discarded["backups"])
		}
		b.must("volume.send", "data", send("more"))
		if files := b.archiveFiles(); len(files) != maxArchives || slices.Contains(files, "b3.tar") {
			t.Errorf("the files are %v", files)
		}
	})
}

func TestArchiveMustFitTheBoundOfItsVolume(t *testing.T) {
	data := saltest.Resource(writ.KindVolume, "data")
	for _, tt := range []struct {
		have, more int64
		fits       bool
	}{{0, 2 * gib, true}, {gib, gib, true}, {gib, gib + 1, false}, {0, 3 * gib, false}} {
		o := own{SizeGiB: 1, Archives: []archive{{Name: "first", Bytes: tt.have}}}
		if err := o.roomFor(data, tt.more); (err == nil) != tt.fits {
			t.Errorf("%d bytes and %d more: %v", tt.have, tt.more, err)
		}
	}
}

// Promise: Volumes and images: Archives of volumes are limited, counted and deletable: 16 per volume, 256 per project
// and node, together twice the size of the volumes.
// How: The record lists the archive before its first byte; `volume.discard` deletes an archive.
// Also: TestArchiveCountsTowardsItsProjectsShare, TestArchiveIsCompleteAndDeterministic,
// TestArchiveLengthIsLimitedByItsVolume, TestArchiveMustFitTheBoundOfItsVolume, TestArchiveOutOfOrderIsRefused,
// TestArchivesOfAVolumeAreBounded, TestArchivesOfDeletedVolumesAreBounded, TestArchivesOfDeletedVolumesAreRemnants,
// TestCrashedSendLosesNoArchive, TestArchivesCountForTheirNode, TestNodeOffersNoDiskOfRemnants.
func TestArchiveBelongsToTheVolumeThatWroteIt(t *testing.T) {
	b := plain(t)
	for _, name := range []string{"first", "second"} {
		b.must("volume.create", name, map[string]any{"size_gib": int64(1)})
	}
	b.must("volume.send", "first", send("nightly"))
	if _, err := b.do("volume.send", "second", send("nightly")); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("an archive of the same name: %v", err)
	}
	if _, err := b.do("volume.discard", "second", send("nightly")); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("the deletion of another volume's archive: %v", err)
	}
	b.must("volume.delete", "first", nil) // a volume.receive may still read it
	if files := b.archiveFiles(); !slices.Equal(files, []string{"nightly.tar"}) {
		t.Errorf("the files are %v", files)
	}
	if o, err := b.do("volume.discard", "second", send("nightly")); err != nil || o.Change != writ.ChangeUpdated || len(b.archiveFiles()) > 0 {
		t.Errorf("the deletion of an archive of a deleted volume: %s, %v, the files are %v", o.Change, err, b.archiveFiles())
	}
}

// The test creates a volume, an archive of the maximum size, and deletes the volume, again and again.
func TestArchivesOfDeletedVolumesAreBounded(t *testing.T) {
	b := plain(t)
	project := string(saltest.Resource(writ.KindVolume, "").Project)
	b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
	b.must("volume.send", "data", send("first"))
	holes(t, filepath.Join(b.Dir, "backups", project, "first.tar"), 2*gib) // as if the content had been large
	b.must("volume.delete", "data", nil)
	b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
	_, err := b.do("volume.send", "data", send("second"))
	if writ.CodeOf(err) != writ.CodeQuotaExceeded || !strings.HasSuffix(writ.AsError(err).Hint, "[first]") {
		t.Errorf("another archive: %v, %+v", err, writ.AsError(err))
	}
	b.must("volume.discard", "data", send("first"))
	b.must("volume.send", "data", send("second"))
	for i := range maxProjectArchives {
		writeFile(t, filepath.Join(b.Dir, "backups", project, fmt.Sprint(i, ".tar")), "")
	}
	if _, err := b.do("volume.send", "data", send("third")); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("an archive after %d small archives: %v", maxProjectArchives, err)
	}
}

// A project has room for one more archive. While one volume writes it, another volume of the project gets no room.
func TestConcurrentArchivesShareTheirLimit(t *testing.T) {
	b := plain(t)
	const free = 3 << 19 // more than one of the archives, less than two
	for _, name := range []string{"first", "second"} {
		path := b.must("volume.create", name, map[string]any{"size_gib": int64(1)})["path"].(string)
		writeFile(t, filepath.Join(path, "file"), strings.Repeat("x", 1<<20))
	}
	project := string(saltest.Resource(writ.KindVolume, "").Project)
	writeFile(t, filepath.Join(b.Dir, "backups", project, "old.tar"), "")
	holes(t, filepath.Join(b.Dir, "backups", project, "old.tar"), 4*gib-free)
	var meanwhile error
	b.Step = func(name string) {
		if name == "write the archive" && meanwhile == nil {
			meanwhile = errors.New("it runs")
			_, meanwhile = b.do("volume.send", "second", send("two"))
		}
	}
	b.must("volume.send", "first", send("one"))
	if writ.CodeOf(meanwhile) != writ.CodeQuotaExceeded {
		t.Errorf("the second archive: %v", meanwhile)
	}
	b.Step = nil
	b.must("volume.discard", "first", send("one"))
	b.must("volume.send", "second", send("two"))
}

func TestArchivesOfDeletedVolumesAreRemnants(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		b.must("volume.create", "kept", map[string]any{"size_gib": int64(1)})
		b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
		b.must("volume.send", "kept", send("first"))
		b.must("volume.send", "data", send("second"))
		if bytes, err := b.RemnantBytes(t.Context()); bytes != 0 || err != nil {
			t.Errorf("with its volume an archive counts for %d bytes twice, %v", bytes, err)
		}
		b.must("volume.delete", "data", nil)
		info, err := os.Stat(filepath.Join(b.Dir, "backups", string(saltest.Resource(writ.KindVolume, "").Project), "second.tar"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes, err := b.RemnantBytes(t.Context()); bytes != info.Size() || err != nil {
			t.Errorf("an archive of a deleted volume counts for %d of %d bytes, %v", bytes, info.Size(), err)
		}
	})
}

// The test stops volume.send at each step and then sends under another name: the first archive is complete or missing.
func TestCrashedSendLosesNoArchive(t *testing.T) {
	for stop, stopped := 0, true; stopped; stop++ {
		b := plain(t)
		writeFile(t, filepath.Join(b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})["path"].(string), "file"), "first")
		_, stopped = b.stopAt(stop, func() { b.must("volume.send", "data", send("first")) })
		first := filepath.Join(b.Dir, "backups", string(saltest.Resource(writ.KindVolume, "").Project), "first.tar")
		before, _ := os.ReadFile(first)
		writeFile(t, filepath.Join(b.Trees.Path(saltest.Resource(writ.KindVolume, "data").HostName()), "file"), "second and longer")
		sent := b.must("volume.send", "data", send("second"))
		after, _ := os.ReadFile(first)
		if string(before) != string(after) {
			t.Fatalf("stopped at step %d: the first archive was changed by the second", stop)
		}
		if want := 1 + min(len(before), 1); len(sent["backups"].([]any)) != want || len(b.archiveFiles()) != want {
			t.Fatalf("stopped at step %d: the volume has %v, and the files are %v", stop, sent["backups"], b.archiveFiles())
		}
	}
}

func TestVolumeMadeAgainKeepsItsArchives(t *testing.T) {
	b := plain(t)
	path := b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})["path"].(string)
	b.must("volume.send", "data", send("rescue"))
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if again := b.must("volume.create", "data", map[string]any{"size_gib": int64(1)}); fmt.Sprint(again["backups"]) != "[rescue]" {
		t.Errorf("it has the archives %v", again["backups"])
	}
}

func TestArchiveCountsTowardsItsProjectsShare(t *testing.T) {
	t.Parallel()
	b := &fixture{TB: t, kind: kinds["btrfs"], host: kinds["btrfs"].hosts(t).New(t)}
	share := int64(2 * gib)
	b.kind.trees = func(dir string, step func(string)) sal.Trees {
		return btrfs.New(btrfs.Config{
			Dir: dir, Step: step, ProjectBytes: func(writ.ProjectID) int64 { return share },
			Besides: func(p writ.ProjectID) (int64, error) { return b.ArchiveBytes(p) },
		})
	}
	b.restart(nil)
	b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
	b.must("volume.send", "data", backup)
	if _, err := b.do("volume.create", "more", map[string]any{"size_gib": int64(1)}); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("a second volume with the archive kept: %v", err)
	}
	share = gib
	if _, err := b.do("volume.send", "data", send("second")); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("an archive without a share: %v", err)
	}
}

func TestSnapshotsOfAVolumeAreBounded(t *testing.T) {
	b := plain(t)
	b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
	snapshots := filepath.Join(b.host, "pool", "trees", saltest.Resource(writ.KindVolume, "data").HostName(), "snapshots")
	for i := range sal.MaxSnapshots {
		writeFile(t, filepath.Join(snapshots, fmt.Sprint("s", i), "file"), "")
	}
	if _, err := b.do("volume.snapshot", "data", map[string]any{"snapshot": "more"}); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("one snapshot too many: %v", err)
	}
	b.must("volume.snapshot", "data", map[string]any{"snapshot": "s1"})
}
