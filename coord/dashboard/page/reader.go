package page

import (
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/ledger"
)

// Reader describes the reader of a page. The zero value has no read rights.
type Reader struct {
	Name     string           // the logged-in person in the roster, or ""
	Until    time.Time        // end of the login
	All      bool             // reads all projects, and the nodes and queues, which belong to no project
	Projects []writ.ProjectID // readable projects if All is false
	// May reports whether the reader's role permits an action in a project, "" for all projects. Pages offer commands
	// accordingly. It is nil without a login; pages then offer all commands, because every command must be signed
	// anyway.
	May func(action identity.Action, project writ.ProjectID) bool
}

// Allows reports whether pages offer the command for an action to the reader.
func (r Reader) Allows(action identity.Action, project writ.ProjectID) bool {
	return r.May == nil || r.May(action, project)
}

// MaySubmit reports whether the reader may submit a script to one of these projects.
func (r Reader) MaySubmit(projects []identity.Project) bool {
	return slices.ContainsFunc(projects, func(p identity.Project) bool { return r.Allows(identity.ActionSubmit, p.ID) })
}

// Reads reports whether the reader may read the resources of a project.
func (r Reader) Reads(project writ.ProjectID) bool {
	return r.All || slices.Contains(r.Projects, project)
}

// Selects returns the projects that a request selects: the given project, or all readable projects for "". An empty
// result means all projects; only a reader of all projects gets it.
func (r Reader) Selects(project writ.ProjectID) ([]writ.ProjectID, error) {
	switch {
	case project != "" && r.Reads(project):
		return []writ.ProjectID{project}, nil
	case project != "":
		return nil, ledger.NotThere("project", project)
	case !r.All && len(r.Projects) == 0:
		return nil, writ.Errorf(writ.CodeLoginRequired, "cannot list runs: the reader is unknown").
			WithHint("log in again: writ login --web")
	case !r.All:
		return r.Projects, nil
	}
	return nil, nil
}
