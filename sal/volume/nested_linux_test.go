package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// A container may create a subvolume in its volume.
func TestVolumeWithSubvolumesIsNotCopied(t *testing.T) {
	t.Parallel()
	b := &fixture{TB: t, kind: kinds["btrfs"], host: kinds["btrfs"].hosts(t).New(t)}
	prepare(t, b.host)
	b.restart(nil)
	data := b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})["path"].(string)
	b.must("volume.snapshot", "data", before)
	if said, err := exec.Command(testenv.Need(t, "btrfs"), "subvolume", "create", filepath.Join(data, "mine")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	writeFile(t, filepath.Join(data, "mine", "file"), "all of it")
	from := map[string]any{"from": map[string]any{"kind": "volume", "name": "data", "uid": "u1"}}
	refused := func(doing string, err error) {
		t.Helper()
		if writ.CodeOf(err) != writ.CodeResourceConflict || !strings.Contains(err.Error(), `"mine"`) || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v", doing, err)
		}
	}
	for _, tt := range []struct {
		operation, name string
		args            map[string]any
	}{
		{"volume.snapshot", "data", map[string]any{"snapshot": "after"}},
		{"volume.restore", "data", before},
		{"volume.send", "data", backup},
		{"volume.clone", "other", from},
		{"volume.copy", "other", with(from, "size_gib", int64(1))},
	} {
		_, err := b.do(tt.operation, tt.name, tt.args)
		refused(tt.operation, err)
	}
	resource := saltest.Resource(writ.KindVolume, "data")
	_, err := b.Ship(t.Context(), sal.Shipment{Resource: resource, UID: "u1", Transfer: "t"})
	refused("Ship", err)
	if text, err := os.ReadFile(filepath.Join(data, "mine", "file")); string(text) != "all of it" {
		t.Errorf("it has %q, %v", text, err)
	}
	if all, err := b.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("List = %v, %v", all, err)
	}
	if drift, err := b.Keep(t.Context(), resource); err != nil || len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, `"mine"`) {
		t.Errorf("drift = %+v, %v", drift, err)
	}
	b.must("volume.clone", "other", with(from, "snapshot", "before"))
	b.must("volume.delete", "data", nil)
	if _, err := os.Lstat(data); !os.IsNotExist(err) {
		t.Errorf("directory exists after the delete: %v", err)
	}
}
