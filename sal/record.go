package sal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"writ"
	"writ/sal/catalog"
)

// Record holds the state of a resource that a driver needs after a crash. Own holds the driver's part: pids, paths, the
// step in progress.
type Record[T any] struct {
	Resource  writ.ResourceID `json:"resource"`
	UID       writ.UID        `json:"uid"`
	Operation string          `json:"operation"` // the operation that created it
	Spec      Spec            `json:"spec"`      // arguments of the last Make; secrets by name
	// Generation counts the finished changes.
	Generation int64 `json:"generation"`
	// Lost means that the record was damaged and Own is lost. The driver can only remove the objects that it finds by
	// the names of the resource.
	Lost bool `json:"lost,omitempty"`
	Own  T    `json:"own"`
}

// NewRecord returns the record for a Make operation that creates a resource.
func NewRecord[T any](request Request) *Record[T] {
	return &Record[T]{
		Resource:  request.Resource,
		UID:       request.UID,
		Operation: request.Operation.Name(),
		Spec:      catalog.Values(request.Args),
	}
}

// Owned returns RESOURCE_UNKNOWN if the resource does not exist, and RESOURCE_CONFLICT if its UID is not the UID in the
// request.
func (r *Record[T]) Owned(request Request) error {
	if r == nil {
		return Unknown(request.Resource)
	}
	if r.UID != request.UID {
		return writ.Errorf(writ.CodeResourceConflict,
			"the %s on this node is not the expected one: its id is %s, not %s", r.Resource, r.UID, request.UID).
			WithHint("another call created it: inspect it before you change it. After a restore of the datacenter it may be unlisted: " +
				"docs/manual/runbook.md, \"A node has a resource that its datacenter does not list\"")
	}
	return nil
}

// Decide returns the change that a Make operation needs: create, update of the returned fields, or none.
func (r *Record[T]) Decide(request Request) (change writ.Change, fields []string, err error) {
	if r == nil {
		return writ.ChangeCreated, nil, nil
	}
	if err := r.Owned(request); err != nil {
		return "", nil, err
	}
	fields, err = request.Operation.Remake(r.Resource, r.Operation, r.Spec, catalog.Values(request.Args))
	switch {
	case err != nil:
		return "", nil, err
	case len(fields) > 0:
		return writ.ChangeUpdated, fields, nil
	default:
		return writ.ChangeUnchanged, nil, nil
	}
}

// Making holds the functions of a driver for a Make operation.
type Making[T any] struct {
	Create func() (*Record[T], error)  // creates the resource, or leaves no trace of it
	Update func(fields []string) error // changes the fields that differ
	Check  func() error                // verifies the resource if no field differs; may be nil
}

// Make carries out the decision of Decide, and returns the new record of the resource.
func (r *Record[T]) Make(request Request, m Making[T]) (made *Record[T], change writ.Change, err error) {
	change, fields, err := r.Decide(request)
	if err != nil {
		return nil, "", err
	}
	made = r
	switch {
	case change == writ.ChangeCreated:
		made, err = m.Create()
	case change == writ.ChangeUpdated:
		err = m.Update(fields)
	case m.Check != nil:
		err = m.Check()
	}
	if err != nil {
		return nil, "", err
	}
	return made, change, nil
}

// Unknown returns the error for a resource that is not on this host.
func Unknown(resource writ.ResourceID) error {
	return writ.Errorf(writ.CodeResourceUnknown, "this node has no %s", resource)
}

// Spec is a map of values that keeps integers when it is encoded as JSON and decoded: numbers decode as int64.
type Spec map[string]any

// UnmarshalJSON decodes the output of encoding/json.
func (s *Spec) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	v, err := integers(m)
	if err != nil {
		return err
	}
	*s, _ = v.(map[string]any)
	return nil
}

// integers replaces json.Number by int64.
func integers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return v.Int64()
	case []any:
		for i := range v {
			if v[i], err = integers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = integers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// Records stores one file per resource in a directory. A file is complete or absent, and survives a power cut once Put
// has returned. Drivers call Put before the first side effect. Different resources may be used concurrently.
type Records[T any] struct {
	Dir string // created when needed
	// Step is called before every single change of the directory, so that tests can stop the driver there. It may be nil.
	Step func(name string)
}

// extension is the extension of record files.
const extension = ".json"

// Get returns the record of a resource, or nil if the record does not exist. It returns RECORD_DAMAGED if the record
// cannot be read, and RESOURCE_CONFLICT if the file belongs to a resource of another project.
func (s *Records[T]) Get(resource writ.ResourceID) (*Record[T], error) {
	r, damaged, err := s.get(resource)
	if damaged != nil {
		damaged.Resource = resource // not the resource that the damaged file names
		return nil, damaged.Error()
	}
	return r, err
}

func (s *Records[T]) get(resource writ.ResourceID) (*Record[T], *Damaged, error) {
	r, damaged, err := s.read(s.path(resource))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, HostError("read the record of "+resource.String(), err)
	case damaged == nil && r.Resource != resource:
		return nil, nil, writ.Errorf(writ.CodeResourceConflict,
			"%s and %s of another project would have the same name on this host", resource, r.Resource).
			WithHint("use another name")
	}
	return r, damaged, nil
}

// Put writes a record atomically: to a temporary file, synced, then renamed.
func (s *Records[T]) Put(r *Record[T]) error {
	if err := s.put(r); err != nil {
		return HostError("write the record of "+r.Resource.String(), err)
	}
	return nil
}

func (s *Records[T]) put(r *Record[T]) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := MakeDir(s.Dir); err != nil {
		return err
	}
	path := s.path(r.Resource)
	s.step("write record")
	if err := writeSynced(path+".tmp", append(text, '\n')); err != nil {
		return err
	}
	s.step("rename record")
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	s.step("sync records")
	return syncEntry(path)
}

// Remove removes the record of a resource. A missing record is not an error.
func (s *Records[T]) Remove(resource writ.ResourceID) error {
	s.step("remove record")
	path := s.path(resource)
	_ = os.Remove(path + ".tmp") // left by a runner that was killed during Put; it has no effect
	err := remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.step("sync records")
		err = SyncDir(s.Dir)
	}
	if err != nil {
		return HostError("remove the record of "+resource.String(), err)
	}
	return nil
}

// List returns all readable records, sorted by project, kind and name, and the damaged records. A caller that must not
// miss a resource has to check both.
func (s *Records[T]) List() (all []*Record[T], damaged []Damaged, err error) {
	names, err := FileNames(s.Dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if filepath.Ext(name) != extension {
			continue // a temporary file of Put
		}
		r, broken, err := s.read(filepath.Join(s.Dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			return nil, nil, HostError("read a record", err)
		case broken != nil:
			damaged = append(damaged, *broken)
		default:
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record[T]) int { return a.Resource.Compare(b.Resource) })
	return all, damaged, nil
}

// Resources returns every resource with a record, finished or not, sorted. It includes the resource of a damaged record
// if the record still contains it, so that Keep reports the damage.
func (s *Records[T]) Resources(ctx context.Context) ([]writ.ResourceID, error) {
	records, damaged, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []writ.ResourceID
	for _, r := range records {
		all = append(all, r.Resource)
	}
	for _, d := range damaged {
		if d.Resource != (writ.ResourceID{}) {
			all = append(all, d.Resource)
		}
	}
	slices.SortFunc(all, writ.ResourceID.Compare)
	return all, ctx.Err()
}

func (s *Records[T]) read(path string) (*Record[T], *Damaged, error) {
	r := new(Record[T])
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, syscall.EIO) {
		return nil, nil, err
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && (r.Resource.Kind == "" || r.Resource.HostName()+extension != filepath.Base(path)) {
		err = errors.New("its content does not match its file name")
	}
	if err != nil {
		damaged := newDamaged(path, text, err)
		return nil, &damaged, nil
	}
	return r, nil, nil
}

func (s *Records[T]) path(resource writ.ResourceID) string {
	return filepath.Join(s.Dir, resource.HostName()+extension)
}

func (s *Records[T]) step(name string) {
	if s.Step != nil {
		s.Step(name)
	}
}
