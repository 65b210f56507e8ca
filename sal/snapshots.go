package sal

import "writ"

// MaxSnapshots limits the snapshots or backups that one resource keeps. Each may be as large as the resource.
const MaxSnapshots = 64

// RoomForSnapshot returns QUOTA_EXCEEDED if `have`, the number of snapshots of a resource, has reached MaxSnapshots.
// word is "snapshot" or "backup".
func RoomForSnapshot(resource writ.ResourceID, word string, have int) error {
	if have < MaxSnapshots {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%s already has %d %ss, the maximum", resource, have, word).
		WithHint("delete one with %s.delete_%s(%q, {%s: NAME})", resource.Kind, word, resource.Name, word)
}
