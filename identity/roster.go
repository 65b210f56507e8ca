// Package identity implements keys and rights. It defines the exact texts that are signed: payload, statement, and
// roster (the keys and their rights). It also contains the verifier that every process of writ uses, join tokens, and
// the byte strings of proofs between machines. It must not depend on HTTP, SQL, Redis or the script language. Package
// identity/sshsig makes and verifies SSH signatures, and identity/envelope signs the messages between supervisors and
// nodes.
//
// All signed texts have the same form: header lines in a fixed order, "key: value" with one space, UTF-8, LF, and no
// control characters. Parsing is strict by re-encoding: a text is accepted only if this package would write the parsed
// values as exactly the same bytes. Each rule about a value is therefore implemented only once, in the writer.
package identity

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/chain"
)

const (
	// RosterValidity is the default validity of a roster. Warnings start after half of this time.
	RosterValidity = 90 * 24 * time.Hour

	maxRosterValidity = 366 * 24 * time.Hour
	maxRosterVersion  = 1_000_000_000
	// AllProjects in a binding means every project and all subjects outside projects.
	AllProjects = writ.ProjectID("*")
)

// State is whether a key, principal or authority may be used.
type State string

// The states.
const (
	Active  State = "active"
	Removed State = "removed" // rotated: accepted runs continue, new texts are rejected
	Revoked State = "revoked" // not trusted: open runs are cancelled
)

// PrincipalKind separates people, who can be root operators, from machines, which cannot.
type PrincipalKind string

// The kinds of principals.
const (
	Person PrincipalKind = "person"
	CI     PrincipalKind = "ci"
)

// Roster lists the keys, principals, rights, datacenters and coordinators of a cluster. Its root or its root operators
// sign it. Each version contains the digest of the previous version.
type Roster struct {
	Cluster writ.ClusterID
	Version int // from 1
	Created time.Time
	Expires time.Time
	// Previous is the SHA-256 of the previous version's text; zero in version 1 and in a recovery, which only the root
	// may sign.
	Previous writ.Digest
	// History is a hash chain over the digests of all earlier versions; zero if Previous is zero, and in formats before
	// v4.
	History   writ.Digest
	Root      ssh.PublicKey // its hash is the cluster's id; never changes
	Threshold int           // number of Operators that must sign the next version
	Operators []string      // names of people
	// UserVerification lists the roles that require a security key with user verification (PIN or fingerprint) for
	// every signature.
	UserVerification []Role
	Principals       []Principal
	Authorities      Authorities
	Tenants          []Tenant
	Projects         Projects
	Bindings         []Binding
	Datacenters      Datacenters
	Coordinators     Coordinators // requires at least the format v2

	byKey  map[string]keyOwner // set by the parser; see owners
	digest writ.Digest         // of the parsed text; zero in a roster under construction
	chain  chain.Chain         // set by VerifyRoster; see Chain
}

// Principal is a person or machine that signs.
type Principal struct {
	Name  string
	Kind  PrincipalKind
	State State
	Keys  []PrincipalKey
}

// PrincipalKey is a key of a principal. No two principals share a key.
type PrincipalKey struct {
	Key   ssh.PublicKey // ssh-ed25519 or sk-ssh-ed25519@openssh.com
	State State
}

// Tenant owns projects.
type Tenant struct {
	ID   writ.TenantID
	Name string
}

// Project is a project of the cluster. Bindings refer to its id.
type Project struct {
	ID     writ.ProjectID
	Name   string
	Tenant writ.TenantID // "" for a project without a tenant
}

// Binding gives a role to a principal.
type Binding struct {
	Principal   string
	Role        Role
	Project     writ.ProjectID // "*" for all projects, and for subjects outside projects
	Destructive bool           // for a deployer: also scripts with `destructive: yes`
	Expires     time.Time      // zero if it never expires
}

// Datacenter is a site with the key of its supervisor.
type Datacenter struct {
	writ.Datacenter
	SupervisorKey ed25519.PublicKey
	Enabled       bool // a disabled datacenter accepts no new work
	// ManualApproval makes a node that joins with a token wait for an approval, like a node without a token. It
	// requires at least the format v2.
	ManualApproval bool
	Silence        Silence // zero for DefaultSilence; other values require at least the format v3
}

// Coordinator is a coordinator of the cluster. Key delegates to the authority that issues the coordinator's
// certificates; its signatures authorize no action in a datacenter.
type Coordinator struct {
	ID   string // UUID
	Name string
	Key  ed25519.PublicKey
	URLs []string // addresses for people and supervisors, "https://host" or "https://host:port"; at least one
}

// ClusterOf returns the id of the cluster whose roster has this root.
func ClusterOf(root ssh.PublicKey) writ.ClusterID {
	return writ.ClusterID(writ.DigestOf(root.Marshal()).String())
}

// Principal returns the principal with a name, or nil.
func (r *Roster) Principal(name string) *Principal {
	return find(r.Principals, func(p *Principal) bool { return p.Name == name })
}

// Project returns the project with an id, or nil.
func (r *Roster) Project(id writ.ProjectID) *Project {
	return find(r.Projects, func(p *Project) bool { return p.ID == id })
}

// ProjectName returns the name of a project. It returns the id if r is nil or does not have the project.
func ProjectName(r *Roster, id writ.ProjectID) string {
	if r != nil {
		if p := r.Project(id); p != nil {
			return p.Name
		}
	}
	return string(id)
}

// TenantName returns the name of a project's tenant, or "" if the project has no tenant.
func TenantName(r *Roster, p *Project) string {
	for _, t := range r.Tenants {
		if t.ID == p.Tenant {
			return t.Name
		}
	}
	return ""
}

// Projects is a list of projects.
type Projects []Project

// Named lists the projects with a name. Several tenants may use the same name.
func (l Projects) Named(name string) []Project {
	var found []Project
	for _, p := range l {
		if p.Name == name {
			found = append(found, p)
		}
	}
	return found
}

// Datacenter returns the datacenter with an id, or nil.
func (r *Roster) Datacenter(id writ.DatacenterID) *Datacenter {
	return find(r.Datacenters, func(d *Datacenter) bool { return d.ID == id })
}

// DatacenterName returns the name of a datacenter. It returns the id if r is nil or does not have the datacenter.
func DatacenterName(r *Roster, id writ.DatacenterID) string {
	if r != nil {
		if d := r.Datacenter(id); d != nil {
			return d.Name
		}
	}
	return string(id)
}

// Datacenters is a list of datacenters.
type Datacenters []Datacenter

// Named returns the datacenter with a name, or nil.
func (l Datacenters) Named(name string) *Datacenter {
	return find(l, func(d *Datacenter) bool { return d.Name == name })
}

// Of returns the datacenter whose supervisor has this key, or nil.
func (l Datacenters) Of(supervisor ed25519.PublicKey) *Datacenter {
	return find(l, func(d *Datacenter) bool { return supervisor.Equal(d.SupervisorKey) })
}

// Coordinator returns the coordinator with an id, or nil.
func (r *Roster) Coordinator(id string) *Coordinator {
	return find(r.Coordinators, func(c *Coordinator) bool { return c.ID == id })
}

// Coordinators is a list of coordinators.
type Coordinators []Coordinator

// Of returns the coordinator with a key, or nil.
func (l Coordinators) Of(key ed25519.PublicKey) *Coordinator {
	return find(l, func(c *Coordinator) bool { return key.Equal(c.Key) })
}

// Named returns the coordinator with a name, or nil.
func (l Coordinators) Named(name string) *Coordinator {
	return find(l, func(c *Coordinator) bool { return c.Name == name })
}

// At returns the coordinator with an address, or nil.
func (l Coordinators) At(address string) *Coordinator {
	address = CoordinatorURL(address)
	return find(l, func(c *Coordinator) bool { return slices.Contains(c.URLs, address) })
}

// CoordinatorURL returns an address in the form that rosters use: lower case, without a trailing slash, and without the
// default port of https.
func CoordinatorURL(address string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(address), "/"), ":443"), ":")
}

// RenewFrom returns the middle of the roster's validity. A root operator should sign the next version after this time.
func (r *Roster) RenewFrom() time.Time { return r.Created.Add(r.Expires.Sub(r.Created) / 2) }

// Digest returns the SHA-256 of the text. The next version contains this digest.
func (r *Roster) Digest() (writ.Digest, error) {
	text, err := r.Text()
	if err != nil {
		return writ.Digest{}, err
	}
	return writ.DigestOf(text), nil
}

// textDigest returns the digest of the roster's text. For a parsed roster it is already computed.
func (r *Roster) textDigest() (writ.Digest, error) {
	if !r.digest.IsZero() {
		return r.digest, nil
	}
	return r.Digest()
}

// Successor returns a copy of r as the next version, ready to be changed and signed.
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
	next.History = chain.History(r.History, next.Previous)
	next.Created = now.UTC().Truncate(time.Second)
	next.Expires = next.Created.Add(RosterValidity)
	return next, nil
}

// keyOwner is the owner of a key: either a principal or an authority.
type keyOwner struct {
	principal *Principal
	state     State // of the principal's key
	authority *Authority
}

// owners maps marshalled keys to their owners. The parser computes the map once; for a roster under construction it is
// computed here.
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
