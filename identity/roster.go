package identity

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
)

const (
	// RosterValidity is how long a roster may be used unless its signers say less; warn at half of it.
	RosterValidity = 90 * 24 * time.Hour

	maxRosterValidity = 366 * 24 * time.Hour
	maxRosterVersion  = 1_000_000_000
	// AllProjects stands for every project in a binding, and for what belongs to none.
	AllProjects = writ.ProjectID("*")
)

// State says whether a key, principal or authority may still be used.
type State string

// The states.
const (
	Active  State = "active"
	Removed State = "removed" // rotated: nothing new, but runs that were accepted go on
	Revoked State = "revoked" // not to be trusted: open runs are cancelled
)

// PrincipalKind tells people, who can approve, from machines, which cannot.
type PrincipalKind string

// The kinds of principals.
const (
	Person PrincipalKind = "person"
	CI     PrincipalKind = "ci"
)

// Roster says whose keys mean what. It is signed by its root or by root operators, and each version names the one before it.
type Roster struct {
	Cluster          writ.ClusterID
	Version          int // from 1
	Created          time.Time
	Expires          time.Time
	Previous         writ.Digest   // SHA-256 of the text of the version before; zero in version 1 and in a recovery, which only the root may sign
	History          writ.Digest   // hash chain over the digests of all versions before; zero where Previous is, and in earlier formats
	Root             ssh.PublicKey // its hash is the cluster's id; it never changes
	Threshold        int           // how many of Operators must sign the next version
	Operators        []string      // names of people
	UserVerification []Role        // roles that need a security key that proved its owner (PIN or finger) at every signature
	Principals       []Principal
	Authorities      []Authority
	Tenants          []Tenant
	Projects         []Project
	Bindings         []Binding
	Datacenters      []Datacenter
	Coordinators     []Coordinator // with one of them the text has the format v2 at least

	byKey  map[string]keyOwner // made when parsing; see owners
	digest writ.Digest         // of the text that was parsed; zero in a roster that is being built
	before *ancestor           // earlier versions, newest first

	waypoint  bool  // in the verified chain; see isWaypointAfter
	waypoints []int // versions of the verified chain that are waypoints, ascending
}

// Principal is a person or machine that signs.
type Principal struct {
	Name  string
	Kind  PrincipalKind
	State State
	Keys  []PrincipalKey
}

// PrincipalKey is one of a principal's keys. No two principals have the same.
type PrincipalKey struct {
	Key   ssh.PublicKey // ssh-ed25519 or sk-ssh-ed25519@openssh.com
	State State
}

// Tenant owns projects.
type Tenant struct {
	ID   writ.TenantID
	Name string
}

// Project is what rights are bound to.
type Project struct {
	ID     writ.ProjectID
	Name   string
	Tenant writ.TenantID // "" if it has none
}

// Binding gives a role to a principal.
type Binding struct {
	Principal   string
	Role        Role
	Project     writ.ProjectID // "*" for all of them, and for what belongs to no project
	Destructive bool           // of a deployer: scripts that say `destructive: yes` as well
	Expires     time.Time      // zero if it does not
}

// Datacenter is a site and the key of its supervisor.
type Datacenter struct {
	writ.Datacenter
	SupervisorKey ed25519.PublicKey
	Enabled       bool // a datacenter that is not takes no new work
	// ManualApproval lets a node that joins with a token wait for an approval, as one without. With it the text has the format v2.
	ManualApproval bool
	Silence        Silence // zero if NodeSilence is the default; otherwise the text has the format v3
}

// Coordinator is a coordinator and the key to which its certificates lead. The key signs nothing that makes a datacenter act.
type Coordinator struct {
	ID   string // UUID
	Name string
	Key  ed25519.PublicKey
	URLs []string // where people and supervisors reach it, "https://host" or "https://host:port"; at least one
}

// SSHKey returns an ed25519 key as package ssh knows it, nil if key has not the right length.
func SSHKey(key ed25519.PublicKey) ssh.PublicKey {
	if len(key) != ed25519.PublicKeySize {
		return nil
	}
	k, err := ssh.NewPublicKey(key)
	if err != nil {
		panic(err) // the length was right
	}
	return k
}

// ClusterOf returns the id of the cluster whose roster has this root.
func ClusterOf(root ssh.PublicKey) writ.ClusterID {
	return writ.ClusterID(writ.DigestOf(root.Marshal()).String())
}

// Principal finds a principal by its name, nil if there is none.
func (r *Roster) Principal(name string) *Principal {
	return find(r.Principals, func(p *Principal) bool { return p.Name == name })
}

// Project finds a project by its id, nil if there is none.
func (r *Roster) Project(id writ.ProjectID) *Project {
	return find(r.Projects, func(p *Project) bool { return p.ID == id })
}

// ProjectsNamed lists the projects with a name; several tenants may use the same.
func (r *Roster) ProjectsNamed(name string) []Project {
	var found []Project
	for _, p := range r.Projects {
		if p.Name == name {
			found = append(found, p)
		}
	}
	return found
}

// Datacenter finds a datacenter by its id, nil if there is none.
func (r *Roster) Datacenter(id writ.DatacenterID) *Datacenter {
	return find(r.Datacenters, func(d *Datacenter) bool { return d.ID == id })
}

// DatacenterNamed finds a datacenter by its name, nil if there is none.
func (r *Roster) DatacenterNamed(name string) *Datacenter {
	return find(r.Datacenters, func(d *Datacenter) bool { return d.Name == name })
}

// DatacenterOf finds the datacenter whose supervisor has this key, nil if there is none.
func (r *Roster) DatacenterOf(supervisor ed25519.PublicKey) *Datacenter {
	return find(r.Datacenters, func(d *Datacenter) bool { return supervisor.Equal(d.SupervisorKey) })
}

// Coordinator finds a coordinator by its id, nil if there is none.
func (r *Roster) Coordinator(id string) *Coordinator {
	return find(r.Coordinators, func(c *Coordinator) bool { return c.ID == id })
}

// CoordinatorOf finds the coordinator that has a key, nil if there is none.
func (r *Roster) CoordinatorOf(key ed25519.PublicKey) *Coordinator {
	return find(r.Coordinators, func(c *Coordinator) bool { return key.Equal(c.Key) })
}

// CoordinatorNamed finds a coordinator by its name, nil if there is none.
func (r *Roster) CoordinatorNamed(name string) *Coordinator {
	return find(r.Coordinators, func(c *Coordinator) bool { return c.Name == name })
}

// CoordinatorAt finds the coordinator that has an address, nil if there is none.
func (r *Roster) CoordinatorAt(address string) *Coordinator {
	address = CoordinatorURL(address)
	return find(r.Coordinators, func(c *Coordinator) bool { return slices.Contains(c.URLs, address) })
}

// CoordinatorURL returns an address as rosters write it: in lower case, with nothing behind the host, and without the port that https has anyway.
func CoordinatorURL(address string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(address), "/"), ":443"), ":")
}

// RenewFrom is when half of the roster's time is over. A root operator should sign the next version from then on.
func (r *Roster) RenewFrom() time.Time { return r.Created.Add(r.Expires.Sub(r.Created) / 2) }

// Digest returns the SHA-256 of the text, by which the next version names this one.
func (r *Roster) Digest() (writ.Digest, error) {
	text, err := r.Text()
	if err != nil {
		return writ.Digest{}, err
	}
	return writ.DigestOf(text), nil
}

// Successor returns a copy of r that is ready to be changed and signed as the next version.
func (r *Roster) Successor(now time.Time) (*Roster, error) {
	text, err := r.Text()
	if err != nil {
		return nil, err
	}
	next, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	next.byKey, next.digest = nil, writ.Digest{}
	next.Version++
	next.Previous = writ.DigestOf(text)
	next.History = nextHistory(r.History, next.Previous)
	next.Created = now.UTC().Truncate(time.Second)
	next.Expires = next.Created.Add(RosterValidity)
	return next, nil
}

// keyOwner is whose key it is: one of the two is set.
type keyOwner struct {
	principal *Principal
	state     State // of the principal's key
	authority *Authority
}

// owners maps marshalled keys to whose they are. Parsing prepares it once; a roster that is being built has none.
func (r *Roster) owners() map[string]keyOwner {
	if r.byKey != nil {
		return r.byKey
	}
	m := make(map[string]keyOwner)
	for i := range r.Principals {
		p := &r.Principals[i]
		for _, k := range p.Keys {
			m[string(k.Key.Marshal())] = keyOwner{principal: p, state: k.State}
		}
	}
	for i := range r.Authorities {
		m[string(r.Authorities[i].Key.Marshal())] = keyOwner{authority: &r.Authorities[i]}
	}
	return m
}

func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}
