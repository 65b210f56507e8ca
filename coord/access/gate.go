// Package access decides the rights to read from a coordinator. It holds the scope of each route, the logins of people,
// and the projects that the newest roster allows each person to read. A route without a scope is closed. The package
// does not decide about rights to change: changes are signed texts, which datacenters verify.
package access

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/identity"
	"writ/ledger"
)

// Gate applies the scopes of routes to requests.
type Gate struct {
	// Public permits every client to read everything. Otherwise reading needs a login.
	Public   bool
	Rosters  Rosters
	Ledger   Ledger
	Logins   *Logins
	Browsers *Browsers
}

// Rosters provides the newest roster, which decides about all rights.
type Rosters interface {
	Newest(ctx context.Context) (*identity.Roster, error)
	Current() *identity.Roster // nil if none was loaded
	Verifier(ctx context.Context) (*identity.Verifier, error)
}

// Ledger finds the project of a run or submission.
type Ledger interface {
	Run(ctx context.Context, id writ.RunID) (ledger.Run, error)
	Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error)
}

// Admit applies the scope of the route that the router matched, however the URL is spelled. It sets the signer of the
// request for the log line of a refusal. The viewer is nil if the route needs no login.
func (g *Gate) Admit(r *http.Request, at *chi.Context) (*Viewer, error) {
	switch route := RouteOfRequest(r, at); scopes[route] {
	case ForAll, ForStrangers, ForSigned:
		return nil, nil
	case ForEverything:
		return g.admitEverything(r)
	case ForSchedulers:
		return g.admitScheduler(r)
	case ForReaders:
		return g.viewerOf(r)
	case ForProject:
		who, err := g.viewerOf(r)
		if err != nil || who.All {
			return who, err
		}
		return who, g.isReadable(r.Context(), who, at)
	default:
		return nil, writ.Errorf(writ.CodeRoleMissing, "%s is disabled", route)
	}
}

// RouteOfRequest returns the route that the router matched. HEAD is routed like GET.
func RouteOfRequest(r *http.Request, at *chi.Context) string {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return RouteOf(method, at.RoutePattern())
}

// viewerOf identifies the reader of a request. It returns LOGIN_REQUIRED without a valid login, and the errors of
// identity.Roster.Reads if the newest roster no longer grants the reader any project.
func (g *Gate) viewerOf(r *http.Request) (*Viewer, error) {
	if g.Public {
		return &Viewer{All: true}, nil
	}
	token := sumOf(g.Browsers.tokenOf(r))
	s := g.Logins.sessionOf(token)
	if s != nil {
		RequestOf(r.Context()).Signer = s.login.Signer
	}
	return g.viewerIn(r.Context(), s, token)
}

// viewerIn returns the current rights of a session. It returns LOGIN_REQUIRED for a nil session: the session or its
// token has ended.
func (g *Gate) viewerIn(ctx context.Context, s *session, token tokenSum) (*Viewer, error) {
	if s == nil {
		return nil, LoginRequired("reading needs a login here")
	}
	roster, err := g.Rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	projects, err := s.login.Reads(roster, g.Logins.Now())
	if err != nil {
		return nil, err
	}
	return &Viewer{session: s, token: token, All: slices.Contains(projects, identity.AllProjects), Projects: projects}, nil
}

// Still returns an error if the sender of a request has lost rights since the request began: the token or session
// ended, or a roster changed the readable projects. Streams call Still before they write each batch of events.
// Otherwise a stream could continue for hours after a logout or after its token expired.
func (g *Gate) Still(ctx context.Context) error {
	v := RequestOf(ctx).Viewer
	if v == nil || v.session == nil {
		return nil
	}
	now, err := g.viewerIn(ctx, g.Logins.sessionOf(v.token), v.token)
	if err == nil && (now.All != v.All || !slices.Equal(now.Projects, v.Projects)) {
		err = LoginRequired("the readable projects have changed")
	}
	return err
}

func (g *Gate) admitEverything(r *http.Request) (*Viewer, error) {
	who, err := g.viewerOf(r)
	if err == nil && !who.All {
		err = writ.Errorf(writ.CodeRoleMissing,
			"cannot show %s to %s: it covers all projects, and %[2]s may read only some of them", r.URL.Path,
			who.session.login.Signer).
			WithHint("a root operator can bind a role to all: writ user add %s --role viewer --project '*'",
				who.session.login.Signer)
	}
	return who, err
}

// admitScheduler admits readers of all projects with the right to cordon nodes.
func (g *Gate) admitScheduler(r *http.Request) (*Viewer, error) {
	who, err := g.admitEverything(r)
	if err != nil || who.session == nil {
		return who, err
	}
	roster, err := g.Rosters.Newest(r.Context())
	if err != nil {
		return nil, err
	}
	signer := who.session.login.Signer
	if who.session.login.Allows(roster, identity.ActionScheduleNodes, "", g.Logins.Now()) != nil {
		return nil, writ.Errorf(writ.CodeRoleMissing, "cannot show %s to %s: it is for operators and admins of all projects",
			r.URL.Path, signer).
			WithHint("a root operator can bind the role: writ user add %s --role operator --project '*'", signer)
	}
	return who, nil
}

// isReadable returns nil if a viewer may read the run or submission in the path. Otherwise it returns the same error as
// for an unknown run or submission.
func (g *Gate) isReadable(ctx context.Context, who *Viewer, at *chi.Context) error {
	if digest := parameter(at, "digest"); digest != "" {
		d, err := writ.ParseDigest(digest)
		if err != nil {
			return writ.Errorf(writ.CodeBadRequest, "digest: %v", err)
		}
		s, err := g.Ledger.Submission(ctx, d)
		if err == nil && !who.Reads(s.Project) {
			err = ledger.NotThere("submission", d)
		}
		return err
	}
	// The API and the pages name this parameter differently.
	id := writ.RunID(cmp.Or(parameter(at, "run"), parameter(at, "id")))
	run, err := g.Ledger.Run(ctx, id)
	if err == nil && !who.Reads(run.Project) {
		err = ledger.NotThere("run", id)
	}
	return err
}

// parameter returns a path parameter unescaped, as handlers receive it.
func parameter(at *chi.Context, name string) string {
	text, err := url.PathUnescape(at.URLParam(name))
	if err != nil {
		return "?" // not a valid id
	}
	return text
}

// HasLogin reports whether a request has a token that is valid now.
func (g *Gate) HasLogin(r *http.Request) bool {
	return !g.Public && g.Logins.sessionOf(sumOf(g.Browsers.tokenOf(r))) != nil
}

// May returns a function that reports whether the role of a login permits an action in a project. The function uses the
// roster that is the newest at the call of May.
func (g *Gate) May(login *identity.VerifiedLogin) func(action identity.Action, project writ.ProjectID) bool {
	roster := g.Rosters.Current()
	return func(action identity.Action, project writ.ProjectID) bool {
		return roster != nil && login.Allows(roster, action, project, g.Logins.Now()) == nil
	}
}
