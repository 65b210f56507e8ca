package runner

import (
	"log/slog"
	"testing"
	"time"

	"writ"
)

// A late driver has released the lock, but its call is still registered.
func TestASkippedInspectionKeepsNoLock(t *testing.T) {
	k := newKeeper(&base{log: slog.New(slog.DiscardHandler), now: time.Now}, nil, nil)
	volume := writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: "v"}
	k.calls.open.Store("keep "+volume.HostName(), true)
	k.keep(t.Context(), nil, volume)
	lock := k.locks.Try(volume)
	if lock == nil {
		t.Fatal("the volume is locked without an operation")
	}
	lock.Release()
	if found := k.drifts[volume]; len(found.Lasts) != 1 {
		t.Errorf("drift of a failed inspection = %q", found.Lasts)
	}
}
