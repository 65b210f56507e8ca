package access

import (
	"context"
	"slices"

	"writ"
	"writ/identity"
)

// Viewer identifies the reader of a request and the projects that it may read. The zero value has no read rights.
type Viewer struct {
	All      bool             // reads all projects
	Projects []writ.ProjectID // readable projects if All is false

	session *session // nil if reading needs no login here
	token   tokenSum // token that identified the session
}

// ViewerOf returns the viewer of a request to a route for readers. On any other route the viewer has no read rights.
func ViewerOf(ctx context.Context) *Viewer {
	if v := RequestOf(ctx).Viewer; v != nil {
		return v
	}
	return new(Viewer)
}

// Reads reports whether the viewer may read the resources of a project.
func (v *Viewer) Reads(project writ.ProjectID) bool {
	return v.All || slices.Contains(v.Projects, project)
}

// Login returns the login of the viewer, or nil if this coordinator permits reading without a login.
func (v *Viewer) Login() *identity.VerifiedLogin {
	if v == nil || v.session == nil {
		return nil
	}
	return v.session.login
}
