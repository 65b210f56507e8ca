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

// RoomForResource returns QUOTA_EXCEEDED if the project already has `most` other resources of this kind on the node.
// `records` contains the records of all resources of the kind. Only kinds without CPUs, memory and disk size need this
// limit: the capacity of the node limits the other kinds.
func RoomForResource[O any](resource writ.ResourceID, records []*Record[O], most int) error {
	have := 0
	for _, r := range records {
		if r.Resource.Project == resource.Project && r.Resource != resource {
			have++
		}
	}
	if have < most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the project already has %d %ss on this node, and the maximum is %d",
		have, resource.Kind, most).
		WithHint("delete one with %s.delete(NAME), or use another node; `writ resource list --kind %s` lists the candidates",
			resource.Kind, resource.Kind)
}
