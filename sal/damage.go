package sal

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"writ"
)

// Damaged is a record that is not what a driver wrote: its disk failed, or somebody changed it. Nothing is done to its resource any more
// but removing it, and the others go on.
type Damaged struct {
	Path     string          // of the file
	HostName string          // of the resource, which the file is named by
	Resource writ.ResourceID // the zero value if the file does not tell it any more
	UID      writ.UID        // likewise
	Why      error
}

// Error says what is damaged, and what can be done about it.
func (d Damaged) Error() *writ.Error {
	what := "a resource"
	if d.Resource != (writ.ResourceID{}) {
		what = d.Resource.String()
	}
	return writ.Errorf(writ.CodeRecordDamaged, "the record of %s on this node is damaged: %s: %w", what, d.Path, d.Why).
		WithHint("delete it and make it anew, or put the file back from a backup; nothing else is done to it meanwhile")
}

// Hides returns the error of a driver that cannot list the users of a volume or an image: one of them may have the damaged record. It is not
// retried, because only the operator can mend the record.
func (d Damaged) Hides(kind writ.ResourceKind) *writ.Error {
	damaged := d.Error()
	return writ.Errorf(writ.CodeRecordDamaged, "the users of the %s are unknown: %s", kind, damaged.Message).
		WithHint("delete what the record is of, or put the file back from a backup; then try again")
}

// DamagedOf are the records that may be of a project: those that say so, and those that do not tell any more whose they are.
func DamagedOf(project writ.ProjectID, damaged []Damaged) []Damaged {
	var all []Damaged
	for _, d := range damaged {
		if d.Resource == (writ.ResourceID{}) || d.Resource.Project == project {
			all = append(all, d)
		}
	}
	return all
}

// DamagedOrphans tells of records that are damaged.
func DamagedOrphans(damaged []Damaged) []Orphan {
	var all []Orphan
	for _, d := range damaged {
		all = append(all, Orphan{Kind: writ.OrphanDamaged, Name: d.Path, Of: d.HostName})
	}
	return all
}

// newDamaged says what the text of a damaged record still tells.
func newDamaged(path string, text []byte, why error) Damaged {
	d := Damaged{Path: path, HostName: strings.TrimSuffix(filepath.Base(path), extension), Why: why}
	resource, uid := legible(text)
	if resource.Kind != "" && resource.HostName() == d.HostName {
		d.Resource, d.UID = resource, uid
	}
	return d
}

// legible reads whose a record is as far as its text is whole: that stands at its beginning.
func legible(text []byte) (resource writ.ResourceID, uid writ.UID) {
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

// GetToRemove is Get for a Remove operation, which must end whatever there is: in place of a damaged record it returns one that is Lost, with
// nothing but what the request says. RESOURCE_CONFLICT if the damaged one still tells that it is of another resource than is meant.
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
