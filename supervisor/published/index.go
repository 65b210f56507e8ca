// Package published finds the resources of a datacenter that publish a port of a node. It must not depend on runs,
// calls or the stored form of resources.
package published

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/placement"
)

// In returns the ports in the argument publish, or in the field published of a handle.
func In(list any) (ports []placement.PortRequest) {
	for _, p := range catalog.Publishing(list) {
		port := placement.Port{Protocol: p.Protocol, Number: p.Port}
		ports = append(ports, placement.PortRequest{Port: port, Share: p.Share})
	}
	return ports
}

// By returns the ports that a resource has, from its values, and the ports that it requested, from its arguments.
func By(values, args map[string]any) []placement.PortRequest {
	return append(In(values["published"]), In(args["publish"])...)
}

// Resource is a resource with its published ports. A resource without a node publishes no port.
type Resource struct {
	writ.ResourceID
	Node  writ.NodeID
	Ports []placement.PortRequest
}

// User is a resource that publishes a port of its node.
type User struct {
	placement.PortRequest
	writ.ResourceID
	Node writ.NodeID
}

// Users returns the users of these ports among resources, sorted.
func Users(all []Resource, ports []placement.Port) (users []User) {
	wanted := make(map[placement.Port]bool, len(ports))
	for _, p := range ports {
		wanted[p] = p.Number != 0
	}
	for _, r := range all {
		at := make(map[placement.Port]string)
		for _, p := range r.Ports {
			if r.Node != "" && wanted[p.Port] {
				at[p.Port] = p.Share
			}
		}
		for p, share := range at {
			users = append(users, User{placement.PortRequest{Port: p, Share: share}, r.ResourceID, r.Node})
		}
	}
	return sorted(users)
}

// sorted sorts users by resource and port.
func sorted(users []User) []User {
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(a.ResourceID.Compare(b.ResourceID), cmp.Compare(a.Number, b.Number),
			cmp.Compare(a.Protocol, b.Protocol))
	})
	return users
}

// Index holds the published ports of all resources of a datacenter in memory, so that a step reads only the users of
// its ports. A change takes effect at once, although its batch of changes is not stored yet. If the batch fails, the
// caller must read its resources again and set them: see Unsure. The zero value is an index that is not loaded.
type Index struct {
	mu     sync.Mutex
	users  map[placement.Port]map[writ.ResourceID]use // nil if the index is not loaded
	ports  map[writ.ResourceID][]placement.Port
	unsure map[writ.ResourceID]any // the last batch that set the resource, if it is not known to be stored
}

// use is the node of a user, and the name under which it shares the port.
type use struct {
	node  writ.NodeID
	share string
}

// Load fills the index with all resources, including unstored changes of the current batch.
func (x *Index) Load(all []Resource) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users = make(map[placement.Port]map[writ.ResourceID]use)
	x.ports = make(map[writ.ResourceID][]placement.Port)
	for _, r := range all {
		x.add(r)
	}
}

// Loaded reports whether the index is loaded.
func (x *Index) Loaded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.users != nil
}

// Forget empties the index. It is then not loaded.
func (x *Index) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users, x.ports, x.unsure = nil, nil, nil
}

// Set replaces a resource, in a batch that is not stored yet.
func (x *Index) Set(r Resource, batch any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unsure == nil {
		x.unsure = make(map[writ.ResourceID]any)
	}
	x.unsure[r.ResourceID] = batch
	if x.users == nil {
		return
	}
	for _, p := range x.ports[r.ResourceID] {
		if delete(x.users[p], r.ResourceID); len(x.users[p]) == 0 {
			delete(x.users, p)
		}
	}
	delete(x.ports, r.ResourceID)
	x.add(r)
}

// add adds a resource that the index does not have.
func (x *Index) add(r Resource) {
	for _, p := range r.Ports {
		if r.Node == "" || p.Number == 0 {
			continue
		}
		if x.users[p.Port] == nil {
			x.users[p.Port] = make(map[writ.ResourceID]use)
		}
		x.users[p.Port][r.ResourceID] = use{r.Node, p.Share}
		x.ports[r.ResourceID] = append(x.ports[r.ResourceID], p.Port)
	}
}

// Stored records that a batch is stored.
func (x *Index) Stored(batch any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.unsure, func(_ writ.ResourceID, last any) bool { return last == batch })
}

// Unsure returns the resources whose last change is from another batch, if that batch is not known to be stored.
func (x *Index) Unsure(batch any) (ids []writ.ResourceID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, last := range x.unsure {
		if last != batch {
			ids = append(ids, id)
		}
	}
	return ids
}

// Users returns the users of these ports, sorted. It reads the index as if the resources `instead` were set.
func (x *Index) Users(ports []placement.Port, instead []Resource) []User {
	replaced := make(map[writ.ResourceID]bool, len(instead))
	for _, r := range instead {
		replaced[r.ResourceID] = true
	}
	users := Users(instead, ports)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range ports {
		for id, u := range x.users[p] {
			if !replaced[id] {
				users = append(users, User{placement.PortRequest{Port: p, Share: u.share}, id, u.node})
			}
		}
	}
	return sorted(users)
}
