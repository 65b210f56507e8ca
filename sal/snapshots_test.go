package sal

import (
	"testing"

	"writ"
)

// Promise: Volumes and images: A volume or machine has at most 64 snapshots and a database 64 backups, each deletable
// by itself.
// How: The driver counts them before it creates another; the delete operations are repeatable.
// Also: TestSnapshotsOfAVolumeAreBounded.
func TestSnapshotsOfAResourceAreBounded(t *testing.T) {
	machine := writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web"}
	for have, want := range map[int]writ.Code{0: "", MaxSnapshots - 1: "", MaxSnapshots: writ.CodeQuotaExceeded, MaxSnapshots + 1: writ.CodeQuotaExceeded} {
		if err := RoomForSnapshot(machine, "snapshot", have); writ.CodeOf(err) != want {
			t.Errorf("with %d: %v", have, err)
		}
	}
}
