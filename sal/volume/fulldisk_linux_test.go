package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/saltest"
)

// The runner was killed while a copy filled the disk, so that no record can be written until the copy is removed.
func TestKeepFreesAFullDisk(t *testing.T) {
	root := saltest.Resource(writ.KindVolume, "root")
	for operation, c := range map[string]struct {
		state own
		left  string // path of the unfinished file
	}{
		"volume.restore": {own{Phase: restoring}, "pool/trees/" + root.HostName() + "/work/file"},
		"volume.send": {
			own{Phase: ready, Archives: []archive{{Name: "nightly", Pending: true}}},
			"volumes/backups/" + string(root.Project) + "/." + root.HostName() + ".part",
		},
	} {
		t.Run(operation, func(t *testing.T) {
			disk := testenv.NewDisk(t, t.TempDir(), 16)
			b := &fixture{TB: t, kind: kinds["directory"], host: disk.Dir}
			b.restart(nil)
			b.must("volume.create", "root", map[string]any{"size_gib": int64(1)})
			r, err := b.records().Get(root)
			if err != nil {
				t.Fatal(err)
			}
			c.state.SizeGiB = r.Own.SizeGiB
			r.Own = c.state
			if err := b.records().Put(r); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(b.host, c.left), strings.Repeat("x", 1<<20))
			disk.Fill()
			if drift, err := b.Keep(t.Context(), root); len(drift) > 0 || err != nil {
				t.Errorf("drift = %+v, %v", drift, err)
			}
			if _, err := os.Lstat(filepath.Join(b.host, c.left)); !os.IsNotExist(err) {
				t.Errorf("the unfinished file still exists: %v", err)
			}
			if r, err := b.records().Get(root); err != nil || r.Own.Phase != ready || len(r.Own.Archives) > 0 {
				t.Errorf("its record is %+v, %v", r, err)
			}
		})
	}
}
