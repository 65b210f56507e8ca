package identity

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/identity/header"
)

// Allows returns nil if the principal may perform the action in the project at that time. The error is SIGNER_UNKNOWN,
// SIGNER_REVOKED, ROLE_MISSING or DESTRUCTIVE_DENIED. The project "" means subjects outside projects, such as nodes;
// they need a binding to all projects. Allows assumes user verification where a role requires it; a Verifier checks it.
func (r *Roster) Allows(principal string, action Action, project writ.ProjectID, at time.Time) error {
	return r.rightsOf(principal, at, proof{userVerified: true}).allowNamed(action, project)
}

// rights are the rights of a principal at a time, as far as a signature proves them.
type rights struct {
	roster    *Roster
	principal string
	at        time.Time
	by        proof
}

func (r *Roster) rightsOf(principal string, at time.Time, by proof) rights {
	return rights{r, principal, at, by}
}

// proof holds the properties of a signature that rights depend on.
type proof struct {
	userVerified bool // a security key verified its user
	certificate  bool // signed by a certificate instead of a key of the roster
}

// isUsable returns nil if the roster has the principal and has not removed or revoked it.
func (r rights) isUsable() error {
	p := r.roster.Principal(r.principal)
	if p == nil {
		return unknownSigner("the roster has no principal %q", header.Clip(r.principal))
	}
	return usable(p.State, r.principal, moment{})
}

// allowNamed is allow for a principal that the caller has not checked.
func (r rights) allowNamed(action Action, project writ.ProjectID) error {
	if err := r.isUsable(); err != nil {
		return err
	}
	return r.allow(action, project)
}

// allow returns nil if a binding allows the action. It checks only bindings; the caller has checked the principal. The
// role admin does not count for a certificate: otherwise the authority, instead of the roster, would grant the
// admission of nodes and the creation of tokens.
func (r rights) allow(action Action, project writ.ProjectID) error {
	if action == ActionGovern {
		if !slices.Contains(r.roster.Operators, r.principal) {
			return writ.Errorf(writ.CodeRoleMissing, "%s is not a root operator", r.principal).
				WithHint("the roster lists the root operators")
		}
		return nil
	}
	needed := action
	if action == ActionDestroy {
		needed = ActionSubmit
	}
	tame, powerless, unverified := false, false, Role("")
	var expired *Binding
	for i, b := range r.roster.Bindings {
		switch {
		case b.Principal != r.principal || !slices.Contains(RoleActions[b.Role], needed):
		case b.Project != AllProjects && (project == "" || b.Project != project):
		case !b.Expires.IsZero() && !r.at.Before(b.Expires):
			expired = laterOf(expired, &r.roster.Bindings[i])
		case r.by.certificate && b.Role == Admin:
			powerless = true
		case !r.by.userVerified && slices.Contains(r.roster.UserVerification, b.Role):
			unverified = b.Role
		case action == ActionDestroy && !b.Destructive:
			tame = true
		default:
			return nil
		}
	}
	switch {
	case tame:
		return r.destructionDenied(project)
	case powerless:
		return writ.Errorf(writ.CodeRoleMissing, "the role admin of %s does not count for a certificate", r.principal).
			WithHint("sign with a key that the roster has: writ user add %s --key FILE.pub", r.principal)
	case unverified != "":
		return writ.Errorf(writ.CodeRoleMissing,
			"the role %s needs a security key with user verification, by PIN or fingerprint", unverified).
			WithHint("make one with `ssh-keygen -t ed25519-sk -O verify-required`")
	case expired != nil:
		return r.expired(expired)
	default:
		return r.missing(action, needed, project)
	}
}

// reads reports whether the principal may read a project. It does not require a proof.
func (r rights) reads(project writ.ProjectID) bool {
	r.by = proof{userVerified: true}
	projects, err := r.readable()
	return err == nil && (slices.Contains(projects, AllProjects) || slices.Contains(projects, project))
}

// readable returns the projects that the principal may read, or only AllProjects. Root operators may read all. The
// errors are those of Allows: SIGNER_UNKNOWN, SIGNER_REVOKED, and ROLE_MISSING if there are no projects.
func (r rights) readable() ([]writ.ProjectID, error) {
	if err := r.isUsable(); err != nil {
		return nil, err
	}
	if slices.Contains(r.roster.Operators, r.principal) {
		return []writ.ProjectID{AllProjects}, nil
	}
	var projects []writ.ProjectID
	var expired *Binding
	for i, b := range r.roster.Bindings {
		switch {
		case b.Principal != r.principal || !slices.Contains(RoleActions[b.Role], ActionRead):
		case !b.Expires.IsZero() && !r.at.Before(b.Expires):
			expired = laterOf(expired, &r.roster.Bindings[i])
		case r.by.certificate && b.Role == Admin:
		case b.Project == AllProjects:
			return []writ.ProjectID{AllProjects}, nil
		case !slices.Contains(projects, b.Project):
			projects = append(projects, b.Project)
		}
	}
	if len(projects) == 0 && expired != nil {
		return nil, r.expired(expired)
	}
	if len(projects) == 0 {
		return nil, writ.Errorf(writ.CodeRoleMissing, "%s has no role with read access", r.principal).
			WithHint("a root operator can bind one: writ user add %s --role viewer --project NAME", r.principal)
	}
	return projects, nil
}

// laterOf returns the binding that expires later. a may be nil.
func laterOf(a, b *Binding) *Binding {
	if a != nil && a.Expires.After(b.Expires) {
		return a
	}
	return b
}

func (r rights) destructionDenied(project writ.ProjectID) *writ.Error {
	return writ.Errorf(writ.CodeDestructiveDenied, "%s may deploy here, but not delete or overwrite data", r.principal).
		WithHint("a root operator can allow it: writ user add %s --role %s --destructive --project %s",
			r.principal, Deployer, r.projectName(project))
}

// expired returns an error that names the expired role and the command that binds it again.
func (r rights) expired(b *Binding) *writ.Error {
	on, project := "all projects", "'*'"
	if p := r.roster.Project(b.Project); p != nil {
		on, project = p.Name, p.Name
	}
	command := fmt.Sprintf("writ user add %s --role %s --project %s", b.Principal, b.Role, project)
	if b.Destructive {
		command += " --destructive"
	}
	return writ.Errorf(writ.CodeRoleMissing, "the role %s of %s on %s expired at %s", b.Role, b.Principal, on,
		b.Expires.UTC().Format(time.DateTime)).
		WithHint("a root operator binds it again: %s", command)
}

// missing returns an error that names the roles which allow an action, and the command that binds the first of them. A
// role allows the action if it includes `needed`. The project "" means all projects.
func (r rights) missing(action, needed Action, project writ.ProjectID) *writ.Error {
	var roles []string
	for _, role := range []Role{Viewer, Operator, Deployer, Admin} {
		if slices.Contains(RoleActions[role], needed) {
			roles = append(roles, string(role))
		}
	}
	where := "in all projects"
	if p := r.roster.Project(project); p != nil {
		where = "in the project " + p.Name
	}
	flag := ""
	if action == ActionDestroy {
		flag = " --destructive"
	}
	return writ.Errorf(writ.CodeRoleMissing, "%s has no role that allows %q %s", r.principal, action, where).
		WithHint("%s allows it; a root operator binds a role: writ user add %s --role %s%s --project %s",
			strings.Join(roles, " or "), r.principal, roles[0], flag, r.projectName(project))
}

// projectName returns the name of a project for a command line, or '*' for an unknown project.
func (r rights) projectName(project writ.ProjectID) string {
	if p := r.roster.Project(project); p != nil {
		return p.Name
	}
	return "'*'"
}

func unknownSigner(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignerUnknown, format, args...).
		WithHint("a root operator adds people and keys with `writ user add`")
}

func revokedSigner(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignerRevoked, format, args...).
		WithHint("sign with another key; if this one was not stolen, ask a root operator")
}
