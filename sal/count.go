package sal

import "writ"

// RoomForResource returns QUOTA_EXCEEDED if the project already has `most` resources of this kind on the node; `have`
// is their number. It is for kinds that use no CPUs, memory or disk size: the capacity of the node limits the others.
func RoomForResource(resource writ.ResourceID, have, most int) error {
	if have < most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the project already has %d %ss on this node, and the maximum is %d",
		have, resource.Kind, most).
		WithHint("delete one with %s.delete(NAME), or use another node; `writ resource list --kind %s` lists them",
			resource.Kind, resource.Kind)
}
