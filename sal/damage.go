package sal

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"writ"
)

// Damaged is a record that differs from the driver's last write, because the disk failed or an attacker or operator
// changed the file. The driver can then only remove the resource. It still manages its other resources.
type Damaged struct {
	Path     string          // path of the record file
	HostName string          // host name of the resource, from the file name
	Resource writ.ResourceID // zero if the file no longer contains it
	UID      writ.UID        // empty if the file no longer contains it
	Why      error
}

// Error returns RECORD_DAMAGED for the resource, with a remedy.
func (d Damaged) Error() *writ.Error {
	what := "a resource"
	if d.Resource != (writ.ResourceID{}) {
		what = d.Resource.String()
	}
	return writ.Errorf(writ.CodeRecordDamaged, "the record of %s on this node is damaged: %s: %w", what, d.Path, d.Why).
		WithHint("delete the resource and create it again, or restore the file from a backup; until then, the node does not change the resource")
}

// Hides returns the error of a driver that cannot list all users of a volume or image: the damaged record may belong to
// a user. The call is not retried: only the operator can repair the record.
func (d Damaged) Hides(kind writ.ResourceKind) *writ.Error {
	damaged := d.Error()
	return writ.Errorf(writ.CodeRecordDamaged, "the users of the %s are unknown: %s", kind, damaged.Message).
		WithHint("delete the resource of the record, or restore the file from a backup; then try again")
}

// DamagedOf returns the damaged records that may belong to a project: the records of its resources, and the records
// whose resource is unreadable.
func DamagedOf(project writ.ProjectID, damaged []Damaged) []Damaged {
	var all []Damaged
	for _, d := range damaged {
		if d.Resource == (writ.ResourceID{}) || d.Resource.Project == project {
			all = append(all, d)
		}
	}
	return all
}

// DamagedOrphans returns an orphan for each damaged record.
func DamagedOrphans(damaged []Damaged) []Orphan {
	var all []Orphan
	for _, d := range damaged {
		all = append(all, Orphan{Kind: writ.OrphanDamaged, Name: d.Path, Of: d.HostName})
	}
	return all
}

// newDamaged returns a Damaged for a record file with the content text. It sets Resource and UID only if text still
// contains a resource that matches the file name.
func newDamaged(path string, text []byte, why error) Damaged {
	d := Damaged{Path: path, HostName: strings.TrimSuffix(filepath.Base(path), extension), Why: why}
	resource, uid := readOwner(text)
	if resource.Kind != "" && resource.HostName() == d.HostName {
		d.Resource, d.UID = resource, uid
	}
	return d
}

// readOwner returns the resource and UID of a record. Both are at the beginning of the text, so a truncated record may
// still contain them.
func readOwner(text []byte) (resource writ.ResourceID, uid writ.UID) {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return resource, uid
	}
	for {
		name, err := d.Token()
		if err != nil {
			return resource, uid
		}
		switch name {
		case "resource":
			err = d.Decode(&resource)
		case "uid":
			err = d.Decode(&uid)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return resource, uid
		}
	}
}

// GetToRemove is Get for a Remove operation, which must also work if the record is damaged. For a damaged record, it
// returns a Lost record with the resource and UID of the request. It returns RESOURCE_CONFLICT if the damaged record
// contains another UID.
func (s *Records[T]) GetToRemove(request Request) (*Record[T], error) {
	r, damaged, err := s.get(request.Resource)
	if err != nil || damaged == nil {
		return r, err
	}
	lost := &Record[T]{Resource: request.Resource, UID: request.UID, Lost: true}
	if damaged.UID != "" {
		lost.UID = damaged.UID
	}
	return lost, lost.Owned(request)
}
