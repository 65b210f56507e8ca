package simulated

import (
	"fmt"
	"maps"
	"slices"

	"writ"
	"writ/sal"
)

// The states of machines, containers and databases.
const (
	running = "running"
	paused  = "paused"
	stopped = "stopped"
)

// state is everything that a simulated resource may be; each module uses its part.
type state struct {
	Power     string            `json:"power,omitempty"`
	CPUs      int64             `json:"cpus,omitempty"`
	MemoryMiB int64             `json:"memory_mib,omitempty"`
	SizeGiB   int64             `json:"size_gib,omitempty"`
	Volumes   []attached        `json:"volumes,omitempty"`
	Rules     sal.Spec          `json:"rules,omitempty"`
	Kept      map[string]*state `json:"kept,omitempty"`     // snapshots or backups by name, as it was then
	Archives  []string          `json:"archives,omitempty"` // of a volume
	Secret    int64             `json:"secret,omitempty"`
	Given     bool              `json:"given,omitempty"` // the secret is the password of the spec
	IPv4      []string          `json:"ipv4,omitempty"`  // of a machine or container, in the order of its networks
}

// attached is a volume that a machine has.
type attached struct {
	Volume   writ.Ref `json:"volume"`
	ReadOnly bool     `json:"read_only,omitempty"`
}

// module is what differs between modules.
type module struct {
	// make fills the state of a new resource.
	make func(d *Driver, request sal.Request, s *state) error
	// update changes the fields that a Make operation asks for anew.
	update func(request sal.Request, fields []string, s *state) error
	// use carries out an Alter or Look operation; extra are fields of the result besides those of show.
	use func(d *Driver, request sal.Request, s *state) (extra map[string]any, err error)
	// touch does what is left behind outside the record, again and again if need be; nil if there is nothing.
	touch func(d *Driver, request sal.Request) error
	// show makes the result.
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
	return nil, noSuch(request)
}

// noSuch is the answer to an operation that the catalogue has and this package has not.
func noSuch(request sal.Request) error {
	return writ.Errorf(writ.CodeDriverMissing, "the simulated driver cannot do %s", request.Operation.Name())
}

// grow sets a size that must not shrink.
func grow(request sal.Request, s *state, size int64) error {
	if size < s.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", request.Resource, s.SizeGiB, size).
			WithHint("make a smaller one under another name and copy what is in it")
	}
	s.SizeGiB = size
	return nil
}

// keep remembers the state under a name, unless there is one of that name.
func keep(s *state, name string) {
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

// drop deletes a snapshot or backup.
func drop(s *state, name string) {
	s.Kept = maps.Clone(s.Kept)
	delete(s.Kept, name)
}

// putBack makes the state what it was when it was kept, with everything that is kept.
func putBack(request sal.Request, s *state, what, name string) error {
	then := s.Kept[name]
	if then == nil {
		return writ.Errorf(writ.CodeResourceUnknown, "%s has no %s %q", request.Resource, what, name).
			WithHint("it has: %v", sortedNames(s.Kept))
	}
	kept, archives := s.Kept, s.Archives
	*s = *then
	s.Volumes, s.Kept, s.Archives = slices.Clone(then.Volumes), kept, archives
	return nil
}

// refuse is the error about an operation that does not fit the state.
func refuse(request sal.Request, s *state, hint string) error {
	return writ.Errorf(writ.CodeResourceConflict, "%s is %s", request.Resource, s.Power).WithHint("%s", hint)
}

// updateSizes sets the fields of a Make operation that are numbers.
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

// simulatedLine is one line of such a log.
func simulatedLine(format string, args ...any) string {
	return "simulated: " + fmt.Sprintf(format, args...)
}
