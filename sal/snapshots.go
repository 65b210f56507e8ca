package sal

import "writ"

// MaxSnapshots limits the snapshots or backups that one resource keeps. Each may be as large as the resource.
const MaxSnapshots = 64

// RoomForSnapshot returns QUOTA_EXCEEDED if a resource has MaxSnapshots snapshots. plural is their name in the message,
// "snapshots".
func RoomForSnapshot(resource writ.ResourceID, plural string, have int) error {
	if have < MaxSnapshots {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%s has %d %s already, the maximum", resource, have, plural).
		WithHint("use the name of an existing one, or make another %s and delete this one with its %s", resource.Kind, plural)
}
