// Package inuse finds the resources that use a resource: a machine uses its disks, a container its networks, volumes
// and image. It must not depend on runs or calls.
package inuse

import (
	"slices"
	"strings"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// Index holds the resources of a project by the resources that they use, so that a step with thousands of removals
// reads each resource once. The zero value is empty. It is not safe for concurrent use.
type Index struct {
	users map[used][]User
	uses  map[writ.ResourceID][]used // by user
}

// used is the kind and the name of a used resource.
type used struct {
	kind writ.ResourceKind
	name string
}

// User is a resource that uses another resource.
type User struct {
	*journal.Resource
	// Of is the UID of the used resource, "" if the user has only its name.
	Of writ.UID
}

// Uses reports whether the user uses the resource with this UID. The caller has already compared the kind and the name.
func (u User) Uses(uid writ.UID) bool { return u.Of == "" || u.Of == uid }

// NewIndex returns an index of resources of one project.
func NewIndex(all []*journal.Resource) *Index {
	x := new(Index)
	for _, r := range all {
		x.Set(r.ResourceID, r)
	}
	return x
}

// Set replaces the resource with this ID by r, or removes it if r is nil. A resource of an unknown operation uses no
// other resource.
func (x *Index) Set(id writ.ResourceID, r *journal.Resource) {
	for _, u := range x.uses[id] {
		if i, found := find(x.users[u], id); found {
			x.users[u] = slices.Delete(x.users[u], i, i+1)
		}
	}
	delete(x.uses, id)
	if r == nil {
		return
	}
	op, known := catalog.Lookup(r.Operation)
	if !known {
		return
	}
	if x.users == nil {
		x.users, x.uses = make(map[used][]User), make(map[writ.ResourceID][]used)
	}
	for _, ref := range op.Holds(r.Args, r.Values) {
		x.add(used{ref.Kind, ref.Name}, id, User{r, ref.UID})
	}
}

// add adds a user. If the user uses two resources of one name, such as a deleted volume and its successor, it counts as
// a user of both.
func (x *Index) add(u used, id writ.ResourceID, user User) {
	at, found := find(x.users[u], id)
	if found {
		if one := &x.users[u][at]; one.Of != user.Of {
			one.Of = ""
		}
		return
	}
	x.users[u] = slices.Insert(x.users[u], at, user)
	x.uses[id] = append(x.uses[id], u)
}

// Users returns the users of the resource with this kind and name, sorted by kind and name. The result is valid until
// the next Set.
func (x *Index) Users(kind writ.ResourceKind, name string) []User { return x.users[used{kind, name}] }

// UsersOfKind returns the resources of the kind `by` that use the resource with this kind and name.
func (x *Index) UsersOfKind(kind writ.ResourceKind, name string, by writ.ResourceKind) []User {
	all := x.Users(kind, name)
	from, _ := slices.BinarySearchFunc(all, by, func(u User, by writ.ResourceKind) int {
		return strings.Compare(string(u.Kind), string(by))
	})
	to := from
	for to < len(all) && all[to].Kind == by {
		to++
	}
	return all[from:to]
}

// find returns the place of a user in a sorted list.
func find(all []User, id writ.ResourceID) (at int, found bool) {
	return slices.BinarySearchFunc(all, id, func(u User, id writ.ResourceID) int { return u.ResourceID.Compare(id) })
}
