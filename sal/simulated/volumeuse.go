package simulated

import (
	"path/filepath"
	"slices"
	"sync"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// uses holds the volumes that operations in progress have claimed for machines and containers and not yet recorded.
type uses struct {
	mu   sync.Mutex
	open map[string]use // by directory and resource
}

// use lists the volumes that a resource begins to use.
type use struct {
	node     node
	resource writ.ResourceID
	volumes  []writ.Ref
}

// using is shared by the drivers of machines and containers.
var using = uses{open: make(map[string]use)}

// claim checks that a resource may use volumes, and reserves them until drop. As with real drivers, a volume of a
// machine has no other user, and containers can share volumes.
func (u *uses) claim(n node, r writ.ResourceID, volumes []writ.Ref) error {
	if len(volumes) == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := n.uses()
	if err != nil {
		return err
	}
	for _, open := range u.open {
		if open.node == n {
			all = append(all, open)
		}
	}
	for _, v := range volumes {
		for _, other := range all {
			if other.resource == r ||
				!slices.ContainsFunc(other.volumes, func(has writ.Ref) bool { return has.UID == v.UID }) {
				continue
			}
			switch {
			case other.resource.Kind == writ.KindMachine && r.Kind == writ.KindMachine:
				return catalog.DiskInUse(other.resource, v.Name)
			case other.resource.Kind == writ.KindMachine || r.Kind == writ.KindMachine:
				return catalog.VolumeInUse(other.resource,
					writ.ResourceID{Project: r.Project, Kind: writ.KindVolume, Name: v.Name})
			}
		}
	}
	u.open[n.choice(r)] = use{n, r, volumes}
	return nil
}

// drop ends the claims of a resource. It is called when the record lists the volumes, or when the operation has failed.
func (u *uses) drop(n node, r writ.ResourceID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, n.choice(r))
}

// uses returns the volumes that this node's machines and containers have in their records.
func (n node) uses() (all []use, err error) {
	for _, module := range []string{"machine", "container"} {
		s := store{records: *n.records(module), effects: effects{path: filepath.Join(string(n), module, effectsFile)}}
		records, _, err := s.records.List()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r, err = s.finish(r); err != nil {
				return nil, err
			}
			if r != nil {
				all = append(all, use{n, r.Resource, volumesOf(r)})
			}
		}
	}
	return all, nil
}

// volumesOf returns the volumes of a machine or container.
func volumesOf(r *sal.Record[own]) (volumes []writ.Ref) {
	if r.Resource.Kind == writ.KindContainer {
		return mounted(argsOf[catalog.ContainerCreate](r).Volumes)
	}
	for _, a := range r.Own.State.Volumes {
		volumes = append(volumes, a.Volume)
	}
	return volumes
}

// mounted returns the volumes of a container.
func mounted(mounts []catalog.Mount) (volumes []writ.Ref) {
	for _, m := range mounts {
		volumes = append(volumes, m.Volume)
	}
	return volumes
}
