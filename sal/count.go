package sal

import "writ"

// RoomForResource returns QUOTA_EXCEEDED if a project that has so many resources of a kind on the node may not have another one. It is for
// kinds that need neither CPUs nor memory nor a size on the disk: the capacity of a node bounds the others.
func RoomForResource(resource writ.ResourceID, have, most int) error {
	if have < most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the project has %d %ss on this node already, and may have %d", have, resource.Kind, most).
		WithHint("delete one with %s.delete(NAME), or use another node; `writ resource list --kind %s` lists them", resource.Kind, resource.Kind)
}
