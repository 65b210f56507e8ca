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
// SIGNER_REVOKED, ROLE_MISSING or DESTRUCTIVE_DENIED. The project "" stands for subjects outside projects, such as
// nodes; they need a binding to all projects. Allows assumes user verification where a role requires it; a Verifier
// checks it.
func (r *Roster) Allows(principal string, action Action, project writ.ProjectID, at time.Time) error {
	return r.allowsNamed(principal, action, project, at, proof{userVerified: true})
}

func (r *Roster) allowsNamed(principal string, action Action, project writ.ProjectID, at time.Time, by proof) error {
	p := r.Principal(principal)
	if p == nil {
		return unknownSigner("the roster has no principal %q", header.Clip(principal))
	}
	if err := usable(p.State, principal, moment{}); err != nil {
		return err
	}
	return r.allows(principal, action, project, at, by)
}

// proof holds the properties of a signature that rights depend on.
type proof struct {
	userVerified bool // a security key verified its user
	certificate  bool // signed by a certificate instead of a key of the roster
}

// allows checks only bindings; the caller has checked the principal. The role admin does not count for a certificate:
// otherwise the authority, instead of the roster, would grant the admission of nodes and the creation of tokens.
func (r *Roster) allows(principal string, action Action, project writ.ProjectID, at time.Time, by proof) error {
	if action == ActionGovern {
		if !slices.Contains(r.Operators, principal) {
			return writ.Errorf(writ.CodeRoleMissing, "%s is not a root operator", principal).WithHint("the roster lists the root operators")
		}
		return nil
	}
	needed := action
	if action == ActionDestroy {
		needed = ActionSubmit
	}
	tame, powerless, unverified := false, false, Role("")
	var expired *Binding
	for i, b := range r.Bindings {
		switch {
		case b.Principal != principal || !slices.Contains(RoleActions[b.Role], needed):
		case b.Project != AllProjects && (project == "" || b.Project != project):
		case !b.Expires.IsZero() && !at.Before(b.Expires):
			expired = laterOf(expired, &r.Bindings[i])
		case by.certificate && b.Role == Admin:
			powerless = true
		case !by.userVerified && slices.Contains(r.UserVerification, b.Role):
			unverified = b.Role
		case action == ActionDestroy && !b.Destructive:
			tame = true
		default:
			return nil
		}
	}
	switch {
	case tame:
		return writ.Errorf(writ.CodeDestructiveDenied, "%s may deploy here, but not delete or overwrite data", principal).
			WithHint("a root operator can allow it: writ user add %s --role %s --destructive --project %s", principal, Deployer, r.projectName(project))
	case powerless:
		return writ.Errorf(writ.CodeRoleMissing, "the role admin of %s does not count for a certificate", principal).
			WithHint("sign with a key that the roster has: writ user add %s --key FILE.pub", principal)
	case unverified != "":
		return writ.Errorf(writ.CodeRoleMissing, "the role %s needs a security key with user verification, by PIN or fingerprint", unverified).
			WithHint("make one with `ssh-keygen -t ed25519-sk -O verify-required`")
	case expired != nil:
		return r.roleExpired(expired)
	default:
		return r.roleMissing(principal, action, needed, project)
	}
}

// laterOf returns the binding that expires later. a may be nil.
func laterOf(a, b *Binding) *Binding {
	if a != nil && a.Expires.After(b.Expires) {
		return a
	}
	return b
}

// roleExpired returns an error that names the expired role and the command that binds it again.
func (r *Roster) roleExpired(b *Binding) *writ.Error {
	on, project := "all projects", "'*'"
	if p := r.Project(b.Project); p != nil {
		on, project = p.Name, p.Name
	}
	command := fmt.Sprintf("writ user add %s --role %s --project %s", b.Principal, b.Role, project)
	if b.Destructive {
		command += " --destructive"
	}
	return writ.Errorf(writ.CodeRoleMissing, "the role %s of %s on %s expired at %s", b.Role, b.Principal, on, b.Expires.UTC().Format(time.DateTime)).
		WithHint("a root operator binds it again: %s", command)
}

// roleMissing returns an error that names the roles which allow an action, and the command that binds the first of
// them. The roles must include the action needed. The project "" means all projects.
func (r *Roster) roleMissing(principal string, action, needed Action, project writ.ProjectID) *writ.Error {
	var roles []string
	for _, role := range []Role{Viewer, Operator, Deployer, Admin} {
		if slices.Contains(RoleActions[role], needed) {
			roles = append(roles, string(role))
		}
	}
	where := "in all projects"
	if p := r.Project(project); p != nil {
		where = "in the project " + p.Name
	}
	flag := ""
	if action == ActionDestroy {
		flag = " --destructive"
	}
	return writ.Errorf(writ.CodeRoleMissing, "%s has no role that allows %q %s", principal, action, where).
		WithHint("%s allows it; a root operator binds a role: writ user add %s --role %s%s --project %s",
			strings.Join(roles, " or "), principal, roles[0], flag, r.projectName(project))
}

// projectName returns the name of a project for a command line, or '*' for an unknown project.
func (r *Roster) projectName(project writ.ProjectID) string {
	if p := r.Project(project); p != nil {
		return p.Name
	}
	return "'*'"
}

func unknownSigner(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignerUnknown, format, args...).WithHint("a root operator adds people and keys with `writ user add`")
}

func revokedSigner(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeSignerRevoked, format, args...).WithHint("sign with another key; if this one was not stolen, ask a root operator")
}
