package volume

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// start reads the first bytes of a disk: its other GiB are a hole.
func start(disk string) ([]byte, error) {
	f, err := os.Open(disk)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 512))
}

// lose deletes the content of a volume, as an operator on the host may.
func (b *fixture) lose(volume string) {
	b.Helper()
	if err := b.Trees.Remove(b.Context(), saltest.Resource(writ.KindVolume, volume).HostName()); err != nil {
		b.Fatal(err)
	}
}

func TestVolumeWithoutContentIsMadeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		root := saltest.Resource(writ.KindVolume, "root")
		state := func() string {
			seen, err := b.Observe(t.Context(), root)
			if err != nil || !seen.Exists {
				t.Fatal(seen, err)
			}
			return seen.State
		}
		disk := filepath.Join(b.must("volume.create", "root", spec)["path"].(string), sal.DiskName)
		b.lose("root")
		if got := state(); got != catalog.Gone {
			t.Errorf("without its content it is %s", got)
		}
		if _, err := b.do("volume.resize", "root", map[string]any{"size_gib": int64(2)}); writ.CodeOf(err) != writ.CodeResourceUnknown {
			t.Errorf("resize without content: %v", err)
		}
		web := user{"u1", sal.User{Owner: sal.Owner{Resource: saltest.Resource(writ.KindMachine, "web")}, Running: true}}
		b.Users = []sal.Users{web}
		if _, err := b.do("volume.create", "root", spec); writ.CodeOf(err) != writ.CodeResourceBusy {
			t.Errorf("a machine that runs may have the content open still: %v", err)
		}
		b.Users = nil
		made, err := b.do("volume.create", "root", spec)
		if err != nil || made.Change != writ.ChangeCreated || state() != string(ready) {
			t.Errorf("making it again: %+v, %v", made, err)
		}
		if text, err := start(disk); !strings.HasPrefix(string(text), "a disk: debian-12") {
			t.Errorf("its disk is %.20q, %v", text, err)
		}
		if again, err := b.do("volume.create", "root", spec); err != nil || again.Change != writ.ChangeUnchanged {
			t.Errorf("repeated: %+v, %v", again, err)
		}
	})
}

// Snapshots outlive the content: the driver never removes them by itself, and their content can be recovered.
func TestSnapshotsOutliveTheirVolumeContent(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *fixture) {
		b := fresh(t)
		dir := b.must("volume.create", "root", spec)["path"].(string)
		b.must("volume.snapshot", "root", before)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		_, err := b.do("volume.create", "root", spec)
		if writ.CodeOf(err) != writ.CodeResourceConflict || !strings.Contains(writ.AsError(err).Hint, "volume.clone") {
			t.Errorf("it is made again: %v", err)
		}
		from := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
		copied := b.must("volume.clone", "copy", map[string]any{"from": from, "snapshot": "before"})["path"].(string)
		if text, err := start(filepath.Join(copied, sal.DiskName)); !strings.HasPrefix(string(text), "a disk: debian-12") {
			t.Errorf("the disk of the copy is %.20q, %v", text, err)
		}
		if all, err := b.Trees.Snapshots(t.Context(), saltest.Resource(writ.KindVolume, "root").HostName()); !slices.Equal(all, []string{"before"}) {
			t.Errorf("the snapshots are %q, %v", all, err)
		}
		b.must("volume.delete", "root", nil)
	})
}
