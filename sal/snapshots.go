package sal

import "writ"

// MaxSnapshots limits the snapshots or backups that one resource keeps. Each may be as large as the resource.
const MaxSnapshots = 64

// RoomForSnapshot returns QUOTA_EXCEEDED if a resource with have snapshots may not keep another one. What is their name for people,
// "snapshots".
func RoomForSnapshot(resource writ.ResourceID, what string, have int) error {
	if have < MaxSnapshots {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "%s has %d %s already, and more are not kept", resource, have, what).
		WithHint("use the name of one that exists, or make another %s and delete this one with its %s", resource.Kind, what)
}
