package simulated

import (
	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// store holds the records and effects of a module. Before it returns a record, it finishes the operation that a crash
// interrupted.
type store struct {
	records sal.Records[own]
	effects effects
}

// own is the driver's part of a record.
type own struct {
	State   state    `json:"state"`
	Pending *pending `json:"pending,omitempty"`
}

// pending is an operation in progress. It is written before the effect. After a crash, the operation counts as done if
// the effect is in the file.
type pending struct {
	Operation string   `json:"operation"`
	Spec      sal.Spec `json:"spec"`
	State     state    `json:"state"`
	Gone      bool     `json:"gone,omitempty"`
}

// get returns the record of a resource, or nil if the resource does not exist.
func (s *store) get(resource writ.ResourceID) (*sal.Record[own], error) {
	r, err := s.records.Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	return s.finish(r)
}

// getFor is get for a request. For a Remove operation, it also returns a record for a resource whose record is damaged.
func (s *store) getFor(request sal.Request) (*sal.Record[own], error) {
	if request.Operation.Effect != catalog.Remove {
		return s.get(request.Resource)
	}
	r, err := s.records.GetToRemove(request)
	if err != nil || r == nil {
		return nil, err
	}
	return s.finish(r)
}

// list returns the resources that have records, including damaged records whose resource is legible.
func (s *store) list() ([]writ.ResourceID, error) {
	records, damaged, err := s.records.List()
	if err != nil {
		return nil, err
	}
	var all []writ.ResourceID
	for _, r := range damaged {
		if r.Resource != (writ.ResourceID{}) {
			all = append(all, r.Resource)
		}
	}
	for _, r := range records {
		r, err := s.finish(r)
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r.Resource)
		}
	}
	return all, nil
}

// finish completes a pending operation if its effect took place, and discards it otherwise. It returns nil if the
// resource does not exist.
func (s *store) finish(r *sal.Record[own]) (*sal.Record[own], error) {
	p := r.Own.Pending
	if p == nil {
		return r, nil
	}
	done, err := s.effects.has(r.UID, r.Generation+1)
	if err != nil {
		return nil, sal.HostError("read the effects", err)
	}
	r.Own.Pending = nil
	if done {
		r.Generation++
		r.Spec, r.Own.State = p.Spec, p.State
	}
	if done && p.Gone || r.Generation == 0 {
		return nil, nil
	}
	return r, nil
}
