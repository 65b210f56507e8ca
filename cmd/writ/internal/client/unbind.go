package client

import (
	"slices"

	"writ"
	"writ/identity"
)

// Unbind removes bindings of a principal from a roster: each role in each project. A missing binding is an error.
func Unbind(r *identity.Roster, name string, roles []identity.Role, projects []writ.ProjectID) error {
	if r.Principal(name) == nil {
		return writ.Errorf(writ.CodeNotFound, "the roster has no principal %q", name).WithHint("`writ user list` lists the users")
	}
	for _, role := range roles {
		for _, project := range projects {
			i := slices.IndexFunc(r.Bindings, func(b identity.Binding) bool {
				return b.Principal == name && b.Role == role && b.Project == project
			})
			if i < 0 {
				return unbound(r, name, role, project)
			}
			r.Bindings = slices.Delete(r.Bindings, i, i+1)
		}
	}
	return nil
}

// unbound returns the error for a missing binding. A role on all projects is a separate binding.
func unbound(r *identity.Roster, name string, role identity.Role, project writ.ProjectID) error {
	where := "all projects"
	if p := r.Project(project); p != nil {
		where = "the project " + p.Name
	}
	err := writ.Errorf(writ.CodeNotFound, "%s has no role %s on %s", name, role, where)
	everywhere := func(b identity.Binding) bool {
		return b.Principal == name && b.Role == role && b.Project == identity.AllProjects
	}
	if project != identity.AllProjects && slices.ContainsFunc(r.Bindings, everywhere) {
		return err.WithHint("%s has the role on all projects: writ user remove %s --role %s --project '*'", name, name, role)
	}
	return err.WithHint("`writ user list` shows the roles of each")
}
