package sal

import (
	"fmt"
	"strings"

	"writ"
)

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

// maxNamed limits the names in the hint of UnknownSnapshot.
const maxNamed = 16

// UnknownSnapshot returns RESOURCE_UNKNOWN for a snapshot or backup that a resource lacks. `have` holds the sorted names
// of the existing ones; the hint lists the first maxNamed of them. word is "snapshot" or "backup", which is also the name
// of the operation that makes one.
func UnknownSnapshot(resource writ.ResourceID, word, name string, have []string) *writ.Error {
	err := writ.Errorf(writ.CodeResourceUnknown, "%s has no %s %q", resource, word, name)
	if len(have) == 0 {
		return err.WithHint("it has no %s yet; %s.%s(%q, {%s: NAME}) makes one", word, resource.Kind, word, resource.Name,
			word)
	}
	names := strings.Join(have[:min(len(have), maxNamed)], ", ")
	if more := len(have) - maxNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return err.WithHint("its %ss: %s", word, names)
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
