package simulated

import (
	"maps"
	"slices"

	"writ"
	"writ/sal"
)

// States of machines, containers and databases.
const (
	running = "running"
	paused  = "paused"
	stopped = "stopped"
)

// state is the state of any simulated resource; each module uses its part.
type state struct {
	Power     string            `json:"power,omitempty"`
	CPUs      int64             `json:"cpus,omitempty"`
	MemoryMiB int64             `json:"memory_mib,omitempty"`
	SizeGiB   int64             `json:"size_gib,omitempty"`
	Volumes   []attached        `json:"volumes,omitempty"`
	Rules     sal.Spec          `json:"rules,omitempty"`
	Kept      map[string]*state `json:"kept,omitempty"`     // states by name of snapshot or backup
	Archives  []string          `json:"archives,omitempty"` // of a volume
	Secret    int64             `json:"secret,omitempty"`
	Given     bool              `json:"given,omitempty"`  // the secret is the password of the spec
	IPv4      []string          `json:"ipv4,omitempty"`   // of a machine or container, in the order of its networks
	Claims    []sal.Claim       `json:"claims,omitempty"` // ports of the node that a container publishes
}

// attached is a volume of a machine.
type attached struct {
	Volume   writ.Ref `json:"volume"`
	ReadOnly bool     `json:"read_only,omitempty"`
	// Boot is set for the first disk of a new machine, which cannot be detached.
	Boot bool `json:"boot,omitempty"`
}

// module holds the functions that differ between modules.
type module struct {
	// make sets the state of a new resource.
	make func(d *Driver, request sal.Request, s *state) error
	// update applies changed fields of a Make operation.
	update func(request sal.Request, fields []string, s *state) error
	// use executes an Alter or Look operation; extra holds result fields in addition to the fields from show.
	use func(d *Driver, request sal.Request, s *state) (extra map[string]any, err error)
	// touch changes files outside the record. It must be idempotent; nil if there are no files.
	touch func(d *Driver, request sal.Request) error
	// show returns the result.
	show func(d *Driver, r *sal.Record[own]) any
}

var modules = map[string]module{
	"image":     {makeImage, updateNothing, useNothing, touchImage, showImage},
	"volume":    {makeVolume, updateVolume, useVolume, touchVolume, showVolume},
	"network":   {makeNetwork, updateNothing, useNetwork, nil, showNetwork},
	"machine":   {makeMachine, updateMachine, useMachine, touchMachine, showMachine},
	"container": {makeContainer, updateContainer, useContainer, touchContainer, showContainer},
	"herodb":    {makeHeroDB, updateHeroDB, useHeroDB, nil, showHeroDB},
}

// updateNothing serves modules whose mutable fields are only in the spec.
func updateNothing(sal.Request, []string, *state) error { return nil }

func useNothing(_ *Driver, request sal.Request, _ *state) (map[string]any, error) {
	return nil, unsupported(request)
}

// unsupported returns the error for an operation of the catalogue that this package lacks.
func unsupported(request sal.Request) error {
	return writ.Errorf(writ.CodeDriverMissing, "the simulated driver cannot do %s", request.Operation.Name())
}

// grow sets a size that must not shrink.
func grow(request sal.Request, s *state, size int64) error {
	if size < s.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", request.Resource,
			s.SizeGiB, size).
			WithHint("create a smaller resource under another name, and copy the content")
	}
	s.SizeGiB = size
	return nil
}

// saveState saves the state under a name, unless the name exists.
func saveState(s *state, name string) {
	if s.Kept[name] != nil {
		return
	}
	if s.Kept == nil {
		s.Kept = map[string]*state{}
	}
	then := *s
	then.Kept, then.Archives = nil, nil
	then.Volumes = slices.Clone(s.Volumes)
	s.Kept[name] = &then
}

// deleteState deletes a snapshot or backup.
func deleteState(s *state, name string) {
	s.Kept = maps.Clone(s.Kept)
	delete(s.Kept, name)
}

// restoreState restores a saved state. All saved states and archives stay.
func restoreState(request sal.Request, s *state, what, name string) error {
	then := s.Kept[name]
	if then == nil {
		return sal.UnknownSnapshot(request.Resource, what, name, slices.Sorted(maps.Keys(s.Kept)))
	}
	kept, archives := s.Kept, s.Archives
	*s = *then
	s.Volumes, s.Kept, s.Archives = slices.Clone(then.Volumes), kept, archives
	return nil
}

// refuse returns the error for an operation that is invalid in the current state.
func refuse(request sal.Request, s *state, hint string) error {
	return writ.Errorf(writ.CodeResourceConflict, "%s is %s", request.Resource, s.Power).WithHint("%s", hint)
}

// updateSizes sets the numeric fields of a Make operation.
func updateSizes(request sal.Request, fields []string, s *state, cpus, memory, size int64) error {
	for _, f := range fields {
		switch f {
		case "cpus":
			s.CPUs = cpus
		case "memory_mib":
			s.MemoryMiB = memory
		case "size_gib":
			if err := grow(request, s, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// simulatedLine returns one line of a simulated log.
func simulatedLine(text string) string { return "simulated: " + text }
