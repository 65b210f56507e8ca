package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
)

// Amended is the newest roster after an amendment.
type Amended struct {
	*identity.Roster
	Signed bool // false if the roster already had the change, so no new version was signed
}

// Amend signs the next version of the roster and submits it. change edits a copy of the newest version. If the copy
// does not differ, Amend signs nothing.
func (c Roster) Amend(ctx context.Context, change func(next *identity.Roster) error) (Amended, error) {
	return c.govern(ctx, func(roster *identity.Roster, by *Person, now time.Time) ([]byte, error) {
		return Successor(roster, by, now, change)
	})
}

// Renew signs and submits the next version of the roster, which has the same content and a later expiry.
func (c Roster) Renew(ctx context.Context) (Amended, error) { return c.govern(ctx, Renewal) }

// govern submits the version after the newest roster, which the function `next` signs. If `next` returns nil, the
// roster stays unchanged.
func (c Roster) govern(ctx context.Context,
	next func(roster *identity.Roster, by *Person, now time.Time) ([]byte, error)) (Amended, error) {
	roster, err := c.Newest(ctx)
	if err != nil {
		return Amended{}, err
	}
	by, err := c.client.Person(ctx, roster)
	if err != nil {
		return Amended{}, err
	}
	defer by.Close()
	signed, err := next(roster, by, time.Now())
	if signed == nil || err != nil {
		return Amended{Roster: roster}, err
	}
	_, err = api.Answer[api.RosterVersion](c.client.API.AddRosterWithBody(ctx, api.SignedType, bytes.NewReader(signed)))
	if err != nil {
		return Amended{}, err
	}
	roster, err = c.client.Rosters.Add(signed)
	return Amended{Roster: roster, Signed: true}, err
}

// Successor signs the version after roster. It returns nil if change has no effect.
func Successor(
	roster *identity.Roster, by *Person, now time.Time, change func(next *identity.Roster) error,
) ([]byte, error) {
	next, err := successor(roster, by, now)
	if err != nil {
		return nil, err
	}
	before, err := next.Text()
	if err != nil {
		return nil, err
	}
	if err := change(next); err != nil {
		return nil, err
	}
	after, err := next.Text()
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		return nil, nil
	}
	return identity.SignRoster(next, by)
}

// Renewal signs the version after roster, which differs only in its times.
func Renewal(roster *identity.Roster, by *Person, now time.Time) ([]byte, error) {
	next, err := successor(roster, by, now)
	if err != nil {
		return nil, err
	}
	return identity.SignRoster(next, by)
}

// successor returns the unsigned version after roster, or an error if the person may not sign it alone.
func successor(roster *identity.Roster, by *Person, now time.Time) (*identity.Roster, error) {
	if err := roster.Allows(by.Name, identity.ActionGovern, "", now); err != nil && !same(by.PublicKey(), roster.Root) {
		return nil, err
	}
	if roster.Threshold > 1 && !same(by.PublicKey(), roster.Root) {
		return nil, writ.Errorf(writ.CodeRoleMissing,
			"%d root operators must sign the next version of the roster together, which this "+
				"command cannot do", roster.Threshold).
			WithHint("the roster's root key can sign alone")
	}
	return roster.Successor(now)
}

// Grant holds the rights of a person or machine.
type Grant struct {
	Roles       []identity.Role
	Projects    []writ.ProjectID // identity.AllProjects for all projects
	Destructive bool             // applies to deployers
	Expires     time.Time        // zero for no expiry
}

// AddPrincipal adds a principal to a roster, or adds a key or rights to an existing one.
func AddPrincipal(r *identity.Roster, name string, kind identity.PrincipalKind, key ssh.PublicKey, g Grant) error {
	p := r.Principal(name)
	switch {
	case p == nil && key == nil && kind == identity.Person:
		return writ.Errorf(writ.CodeUsage, "the roster has no principal %q, so a key is needed", name).
			WithHint("add a person with a key: `writ user add %s --key FILE.pub`; with --ci, a machine that uses certificates needs no key", name)
	case p == nil:
		r.Principals = append(r.Principals, identity.Principal{Name: name, Kind: kind, State: identity.Active})
		p = r.Principal(name)
	case p.State != identity.Active:
		return writ.Errorf(writ.CodeConflict, "%s is %s in the roster", name, p.State).
			WithHint("a removed name is never used again: choose another name, such as %s-2, and another key if this key may be stolen", name)
	}
	if key != nil {
		if owner := PrincipalOf(r, key); owner != "" && owner != name {
			if o := r.Principal(owner); o != nil && o.State != identity.Active {
				return writ.Errorf(writ.CodeConflict, "the key belongs to the %s user %s", o.State, owner).
					WithHint("a key is never accepted again after its owner was removed: create another key with ssh-keygen -t ed25519")
			}
			return writ.Errorf(writ.CodeConflict, "the key belongs to %s already", owner).
				WithHint("another name needs another key: ssh-keygen -t ed25519; to give %s a role: writ user add %s --role ROLE --project PROJECT", owner, owner)
		}
		for _, a := range r.Authorities {
			if same(a.Key, key) {
				return writ.Errorf(writ.CodeConflict, "the key belongs to the authority %s, which signs certificates only", a.Name).
					WithHint("make a key for %s: ssh-keygen -t ed25519", name)
			}
		}
		i := slices.IndexFunc(p.Keys, func(k identity.PrincipalKey) bool { return same(k.Key, key) })
		switch {
		case i < 0:
			p.Keys = append(p.Keys, identity.PrincipalKey{Key: key, State: identity.Active})
		case p.Keys[i].State != identity.Active:
			return writ.Errorf(writ.CodeConflict, "the key %s of %s is %s in the roster", ssh.FingerprintSHA256(key), name,
				p.Keys[i].State).
				WithHint("a removed key is never used again: create another key with ssh-keygen -t ed25519")
		}
	}
	for _, role := range g.Roles {
		for _, project := range g.Projects {
			bind(r, identity.Binding{
				Principal: name, Role: role, Project: project,
				Destructive: g.Destructive && role == identity.Deployer, Expires: g.Expires,
			})
		}
	}
	return nil
}

// MeantPrincipal returns the hint for an unknown principal name.
func MeantPrincipal(r *identity.Roster, name string) string {
	return meant.Among(name, r.Principals, func(p identity.Principal) string { return p.Name },
		"`writ user list` lists the users")
}

// meantDatacenter returns the hint for an unknown datacenter name.
func meantDatacenter(r *identity.Roster, name string) string {
	return meant.Among(name, r.Datacenters, func(d identity.Datacenter) string { return d.Name },
		"`writ dc list` lists the datacenters")
}

// RemovePrincipal disables a principal, or the key with this fingerprint; "" means the whole principal. State Removed
// keeps accepted runs; Revoked cancels them. A revoked principal or key stays revoked.
func RemovePrincipal(r *identity.Roster, name, fingerprint string, state identity.State) error {
	p := r.Principal(name)
	if p == nil {
		return writ.Errorf(writ.CodeNotFound, "the roster has no principal %q", name).WithHint("%s", MeantPrincipal(r, name))
	}
	if fingerprint == "" {
		if slices.Contains(r.Operators, name) && len(r.Operators) <= r.Threshold {
			return writ.Errorf(writ.CodeConflict, "the roster needs %d root operators, and %s is one of %d", r.Threshold, name,
				len(r.Operators)).
				WithHint("give %s another key with `writ user add %s --key FILE.pub`, and remove the old key with --only", name,
					name)
		}
		r.Operators = slices.DeleteFunc(r.Operators, func(o string) bool { return o == name })
		p.State = later(p.State, state)
		return nil
	}
	i := slices.IndexFunc(p.Keys,
		func(k identity.PrincipalKey) bool { return ssh.FingerprintSHA256(k.Key) == fingerprint })
	if i < 0 {
		return writ.Errorf(writ.CodeNotFound, "%s has no key %s", name, fingerprint).
			WithHint("`writ user list -o wide` lists the users")
	}
	p.Keys[i].State = later(p.Keys[i].State, state)
	if slices.Contains(r.Operators, name) &&
		!slices.ContainsFunc(p.Keys, func(k identity.PrincipalKey) bool { return k.State == identity.Active }) {
		return writ.Errorf(writ.CodeConflict, "%s is a root operator, and this is the last key", name).
			WithHint("give %s another key first: writ user add %s --key FILE.pub", name, name)
	}
	return nil
}

// later returns the less trusted state: a revoked entry stays revoked.
func later(have, asked identity.State) identity.State {
	if have == identity.Revoked {
		return have
	}
	return asked
}

// bind adds a binding or replaces the binding for the same role and project.
func bind(r *identity.Roster, b identity.Binding) {
	for i, have := range r.Bindings {
		if have.Principal == b.Principal && have.Role == b.Role && have.Project == b.Project {
			r.Bindings[i] = b
			return
		}
	}
	r.Bindings = append(r.Bindings, b)
}

// AddProject adds a project and, if necessary, its tenant. An empty tenant means none. Existing entries stay unchanged.
func AddProject(r *identity.Roster, name, tenant string) error {
	var owner writ.TenantID
	if tenant != "" {
		i := slices.IndexFunc(r.Tenants, func(t identity.Tenant) bool { return t.Name == tenant })
		if i < 0 {
			r.Tenants = append(r.Tenants, identity.Tenant{ID: writ.TenantID(writ.NewUUID()), Name: tenant})
			i = len(r.Tenants) - 1
		}
		owner = r.Tenants[i].ID
	}
	for _, p := range r.Projects.Named(name) {
		if p.Tenant == owner {
			return nil
		}
	}
	r.Projects = append(r.Projects, identity.Project{ID: writ.ProjectID(writ.NewUUID()), Name: name, Tenant: owner})
	return nil
}

// AddDatacenter adds a datacenter with the key of its supervisor and a new id.
func AddDatacenter(r *identity.Roster, d writ.Datacenter, key ed25519.PublicKey) error {
	if have := r.Datacenters.Named(d.Name); have != nil {
		if have.SupervisorKey.Equal(key) {
			return nil
		}
		return writ.Errorf(writ.CodeConflict, "there is a datacenter %s with another supervisor already", d.Name).
			WithHint("choose another name; `writ dc list` shows the datacenters")
	}
	if have := r.Datacenters.Of(key); have != nil {
		return writ.Errorf(writ.CodeConflict, "the key belongs to the supervisor of %s already", have.Name).
			WithHint("start the supervisor of the new datacenter with an empty --data, where it creates its own key")
	}
	d.ID = writ.DatacenterID(writ.NewUUID())
	r.Datacenters = append(r.Datacenters, identity.Datacenter{Datacenter: d, SupervisorKey: key, Enabled: true})
	return nil
}

// DatacenterSettings holds datacenter settings of the roster. A nil field leaves the setting unchanged.
type DatacenterSettings struct {
	ManualApproval *bool          // every joining node waits for approval; otherwise a token suffices
	SilentAfter    *time.Duration // time without a message until a node counts as silent
	LostAfter      *time.Duration
}

// SetDatacenter changes the settings of a datacenter.
func SetDatacenter(r *identity.Roster, datacenter string, settings DatacenterSettings) error {
	d, err := FindDatacenter(r, datacenter)
	if err != nil {
		return err
	}
	if settings.ManualApproval != nil {
		d.ManualApproval = *settings.ManualApproval
	}
	silence := d.NodeSilence()
	if settings.SilentAfter != nil {
		silence.Silent = *settings.SilentAfter
	}
	if settings.LostAfter != nil {
		silence.Lost = *settings.LostAfter
	}
	return d.SetSilence(silence)
}

// FindDatacenter returns the datacenter with this name.
func FindDatacenter(r *identity.Roster, name string) (*identity.Datacenter, error) {
	d := r.Datacenters.Named(name)
	if d == nil {
		return nil, writ.Errorf(writ.CodeNotFound, "unknown datacenter %q", name).WithHint("%s", meantDatacenter(r, name))
	}
	return d, nil
}

func addressTaken(c *identity.Coordinator, address string) error {
	return writ.Errorf(writ.CodeConflict, "the coordinator %s is at %s already", c.Name, address).
		WithHint("two coordinators cannot share an address")
}

// AddCoordinator adds a coordinator to a roster, or adds addresses to the existing coordinator with this name and key.
func AddCoordinator(r *identity.Roster, name string, key ed25519.PublicKey, urls []string) error {
	if have := r.Coordinators.Named(name); have != nil {
		if !have.Key.Equal(key) {
			return writ.Errorf(writ.CodeConflict, "there is a coordinator %s already, with another key", name).
				WithHint("choose another name, or remove that one first with `writ coordinator remove %s`", name)
		}
		for _, u := range urls {
			if at := r.Coordinators.At(u); at == nil {
				have.URLs = append(have.URLs, u)
			} else if at.ID != have.ID {
				return addressTaken(at, u)
			}
		}
		return nil
	}
	if have := r.Coordinators.Of(key); have != nil {
		return writ.Errorf(writ.CodeConflict, "the key belongs to the coordinator %s already", have.Name).
			WithHint("use another --data directory")
	}
	for _, u := range urls {
		if have := r.Coordinators.At(u); have != nil {
			return addressTaken(have, u)
		}
	}
	r.Coordinators = append(r.Coordinators, identity.Coordinator{ID: writ.NewUUID(), Name: name, Key: key, URLs: urls})
	return nil
}

// RemoveCoordinator removes a coordinator from a roster.
func RemoveCoordinator(r *identity.Roster, name string) error {
	hint := meant.Among(name, r.Coordinators, func(c identity.Coordinator) string { return c.Name },
		"`writ coordinator list` lists the coordinators")
	before := len(r.Coordinators)
	r.Coordinators = slices.DeleteFunc(r.Coordinators,
		func(c identity.Coordinator) bool { return c.Name == name || c.ID == name })
	if len(r.Coordinators) == before {
		return writ.Errorf(writ.CodeNotFound, "the roster has no coordinator %q", name).WithHint("%s", hint)
	}
	if len(r.Coordinators) == 0 {
		return writ.Errorf(writ.CodeConflict,
			"%s is the only coordinator: without it, no command could reach the cluster or change its roster", name).
			WithHint("add another one first: writ coordinator add NAME --url https://HOST:PORT --data DIRECTORY")
	}
	return nil
}

// Project returns the project with this name or id.
func Project(r *identity.Roster, nameOrID string) (identity.Project, error) {
	if p := r.Project(writ.ProjectID(nameOrID)); p != nil {
		return *p, nil
	}
	switch named := r.Projects.Named(nameOrID); len(named) {
	case 1:
		return named[0], nil
	case 0:
		return identity.Project{}, writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %q", nameOrID).
			WithHint("%s",
				meant.Among(nameOrID, r.Projects, func(p identity.Project) string { return p.Name },
					"`writ project list` lists the projects, and `writ project add NAME` adds one"))
	default:
		return identity.Project{}, writ.Errorf(writ.CodeConflict, "%d tenants have a project %q", len(named), nameOrID).
			WithHint("name it by its id; `writ project list` lists the projects")
	}
}

// Datacenter returns the datacenter with this name or id.
func Datacenter(r *identity.Roster, nameOrID string) (*identity.Datacenter, error) {
	d := r.Datacenter(writ.DatacenterID(nameOrID))
	if d == nil {
		d = r.Datacenters.Named(nameOrID)
	}
	if d == nil {
		err := writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %q", nameOrID)
		if strings.Contains(nameOrID, ",") {
			return nil, err.WithHint("name one project, and repeat the command for other projects")
		}
		return nil, err.WithHint("%s", meantDatacenter(r, nameOrID))
	}
	return d, nil
}
