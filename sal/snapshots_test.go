package sal

import (
	"slices"
	"strings"
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

func TestUnknownSnapshotIsAnsweredWithAList(t *testing.T) {
	db := writ.ResourceID{Project: "p", Kind: writ.KindHeroDB, Name: "shop"}
	many := slices.Repeat([]string{"b"}, maxNamed)
	for name, tt := range map[string]struct {
		have []string
		want string
	}{
		"none": {nil, `it has no backup yet; herodb.backup("shop", {backup: NAME}) makes one`},
		"some": {[]string{"before", "daily-1"}, "its backups: before, daily-1"},
		"many": {append(many, "c", "d"), "its backups: " + strings.Join(many, ", ") + " and 2 more"},
	} {
		err := UnknownSnapshot(db, "backup", "dayly-1", tt.have)
		if err.Message != `herodb shop has no backup "dayly-1"` || err.Hint != tt.want || err.Code != writ.CodeResourceUnknown {
			t.Errorf("%s: %s; hint: %s; want %s", name, err, err.Hint, tt.want)
		}
	}
}
