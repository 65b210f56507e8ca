package volume

import (
	"runtime"
	"testing"

	"writ"
	"writ/sal/saltest"
)

// A runner was killed between the snapshot and the new limit of the tree, which depends on the number of snapshots.
func TestRepeatedSnapshotSetsTheQuota(t *testing.T) {
	b := &fixture{TB: t, kind: kinds["btrfs"], host: kinds["btrfs"].hosts(t).New(t)}
	b.restart(nil)
	b.must("volume.create", "root", map[string]any{"size_gib": int64(1)})
	b.restart(func(step string) {
		if step == "bound the tree" {
			runtime.Goexit()
		}
	})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		_, _ = b.do("volume.snapshot", "root", before)
		t.Error("it was not interrupted")
	}()
	<-killed
	b.restart(nil)
	if o, err := b.do("volume.snapshot", "root", before); err != nil || o.Change != writ.ChangeUnchanged {
		t.Errorf("repeated: %s, %v", o.Change, err)
	}
	if drift, err := b.Keep(t.Context(), saltest.Resource(writ.KindVolume, "root")); err != nil || len(drift) > 0 {
		t.Errorf("drift = %+v, %v", drift, err)
	}
}
