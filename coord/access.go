package coord

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/dashboard"
	"writ/identity"
	"writ/ledger"
)

// scope classifies a route by the callers that may use it.
type scope int

const (
	_      scope = iota
	forAll       // no login needed: the answer is public, or the handler verifies the request
	// Like forAll, and answered without a disk or another server: requests without a login take turns.
	forStrangers
	forSigned     // the signed body identifies and authenticates its signer
	forReaders    // readers of at least one project; the handler filters by project
	forProject    // readers of the project of the run or submission in the path, for pages as well
	forEverything // readers of all projects
	// Readers of all projects who may also cordon nodes: the output of a node's programs is for its operators.
	forSchedulers
)

// access maps every route to its scope. A test compares it with the router, and authorize rejects any other route.
var access = map[string]scope{
	"POST /v1/logins/challenges":                             forStrangers,
	"POST /v1/logins":                                        forSigned,
	"POST /v1/logins/tokens":                                 forSigned,
	"POST /v1/logins/codes":                                  forSigned,
	"POST /v1/logins/ends":                                   forSigned,
	"POST /v1/submissions":                                   forSigned,
	"GET /v1/submissions/{digest}":                           forProject,
	"GET /v1/submissions/{digest}/signed":                    forProject,
	"POST /v1/statements":                                    forSigned,
	"GET /v1/runs":                                           forReaders,
	"GET /v1/runs/{run}":                                     forProject,
	"GET /v1/runs/{run}/calls":                               forProject,
	"GET /v1/runs/{run}/values":                              forProject,
	"GET /v1/runs/{run}/standing":                            forProject,
	"GET /v1/runs/{run}/logs":                                forProject,
	"GET /v1/runs/{run}/events":                              forProject,
	"GET /v1/events":                                         forReaders,
	"GET /v1/roster":                                         forAll,
	"POST /v1/roster":                                        forStrangers,
	"GET /v1/roster/adoptions":                               forReaders,
	"GET /v1/regions":                                        forReaders,
	"GET /v1/datacenters":                                    forReaders,
	"GET /v1/datacenters/registrations":                      forEverything,
	"POST /v1/datacenters/registrations":                     forAll,
	"POST /v1/datacenters/{datacenter}/plan":                 forReaders,
	"GET /v1/datacenters/{datacenter}/nodes/{node}/standing": forEverything,
	"GET /v1/datacenters/{datacenter}/nodes/{node}/log":      forSchedulers,
	"GET /v1/datacenters/{datacenter}/tokens/standing":       forEverything,
	"GET /v1/datacenters/{datacenter}/holds/standing":        forReaders,
	"GET /v1/projects":                                       forReaders,
	"GET /v1/nodes":                                          forEverything,
	"GET /v1/queues":                                         forEverything,
	"GET /v1/secrets":                                        forReaders,
	"GET /v1/certificates":                                   forEverything,
	"GET /v1/batches":                                        forEverything,
	"GET /v1/tokens":                                         forEverything,
	"GET /v1/boots":                                          forEverything,
	"GET /v1/holds":                                          forReaders,
	"GET /v1/resources":                                      forReaders,
	"GET /v1/deployments":                                    forReaders,
	"GET /v1/usage":                                          forReaders,
	"GET /v1/link":                                           forAll,
	"GET /healthz":                                           forStrangers,
	"GET /readyz":                                            forStrangers,
	"GET /metrics":                                           forEverything, // MetricsHandler serves it without a login
	"GET /openapi.yaml":                                      forStrangers,
	"GET /login":                                             forStrangers,
	"POST /login":                                            forSigned,
	"POST /logout":                                           forAll,
	"GET /static/*":                                          forStrangers,
	"GET /":                                                  forReaders,
	"GET /runs/{id}":                                         forProject,
	"GET /runs/{id}/values":                                  forProject, // like the values and the log of the API
	"GET /runs/{id}/log":                                     forProject,
	"GET /runs/{id}/timeline":                                forProject,
	"GET /secrets":                                           forReaders, // like the lists of the API
	"GET /usage":                                             forReaders,
	"GET /stuck":                                             forReaders,
	"GET /live/stuck":                                        forReaders,
	"GET /failures":                                          forReaders,
	"GET /live/failures":                                     forReaders,
	"GET /resources":                                         forReaders,
	"GET /live/resources":                                    forReaders,
	"GET /deployments":                                       forReaders,
	"GET /live/deployments":                                  forReaders,
	"GET /queues":                                            forEverything,
	"GET /live/queues":                                       forEverything,
	"GET /nodes":                                             forEverything,
	"GET /nodes/{datacenter}/{node}":                         forEverything,
	"GET /live/nodes/{datacenter}/{node}":                    forEverything,
	"GET /boot":                                              forEverything,
	"GET /live/boot":                                         forEverything,
	"GET /nodes/{datacenter}/{node}/log":                     forSchedulers,
	"GET /datacenters":                                       forReaders,
	"GET /live":                                              forReaders,
	"GET /live/runs/{id}":                                    forProject,
	"GET /live/nodes":                                        forEverything,
	"GET /live/datacenters":                                  forReaders,
}

// isOpen reports whether a route needs no login.
func (s scope) isOpen() bool { return s == forAll || s == forStrangers || s == forSigned }

// OpenRoutes lists the routes that need no login.
func OpenRoutes() (open []string) {
	for route, scope := range access {
		if scope.isOpen() {
			open = append(open, route)
		}
	}
	slices.Sort(open)
	return open
}

// metricsRoutes lists the routes of MetricsHandler.
var metricsRoutes = []string{"GET /metrics", "GET /healthz", "GET /readyz"}

// MetricsRoutes lists the routes of MetricsHandler. They need no login.
func MetricsRoutes() []string { return slices.Clone(metricsRoutes) }

// viewer identifies the reader of a request and the projects that it may read.
type viewer struct {
	session  *session         // nil if reading needs no login here
	token    secretSum        // the token that identified the session
	all      bool             // reads all projects
	projects []writ.ProjectID // readable projects if all is false
}

// reads reports whether the viewer may read the resources of a project.
func (r *viewer) reads(project writ.ProjectID) bool {
	return r.all || slices.Contains(r.projects, project)
}

// viewerOf identifies the reader of a request. It returns LOGIN_REQUIRED without a valid login, and the errors of
// identity.Roster.Reads if the current roster no longer grants the reader any project.
func (c *Coordinator) viewerOf(ctx context.Context, r *http.Request) (*viewer, error) {
	if c.Self == nil {
		return &viewer{all: true}, nil
	}
	token := sumOf(c.tokenOf(r))
	s := c.logins.of(token, c.Now())
	if s != nil {
		askedOf(ctx).signer = s.login.Signer // for the log line of a refusal
	}
	return c.viewerIn(ctx, s, token)
}

// viewerIn returns the current rights of a session. A nil session, because the session or its token has ended, is
// LOGIN_REQUIRED.
func (c *Coordinator) viewerIn(ctx context.Context, s *session, token secretSum) (*viewer, error) {
	if s == nil {
		return nil, loginRequired("reading needs a login here")
	}
	roster, err := c.rosters.Newest(ctx)
	if err != nil {
		return nil, err
	}
	projects, err := roster.Reads(s.login, c.Now())
	if err != nil {
		return nil, err
	}
	return &viewer{session: s, token: token, all: slices.Contains(projects, identity.AllProjects), projects: projects}, nil
}

// still returns an error if the sender of a request has lost its rights since the request began: its token or session
// ended, or a roster changed its projects. Streams check it before they write each batch of events. Otherwise a stream
// would outlive a logout, or the token that opened it, by hours.
func (c *Coordinator) still(ctx context.Context) error {
	v := askedOf(ctx).viewer
	if v == nil || v.session == nil {
		return nil
	}
	now, err := c.viewerIn(ctx, c.logins.of(v.token, c.Now()), v.token)
	if err == nil && (now.all != v.all || !slices.Equal(now.projects, v.projects)) {
		err = loginRequired("the readable projects have changed")
	}
	return err
}

// authorize serves a request if the scope of its route permits it. It wraps every handler behind the router, so it
// decides about the route that the router matched, however the URL is spelled.
func (c *Coordinator) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		at := chi.RouteContext(r.Context())
		route := routeOf(method, at.RoutePattern())
		who, err := c.admit(r, route, at)
		if err == nil {
			askedOf(r.Context()).viewer = who
			err = c.awaitReader(w, r, who)
		}
		if err != nil {
			c.deny(w, r, err)
			return
		}
		if access[route] == forStrangers && !c.hasLogin(r) {
			c.strangers.serve(w, r, next)
			return
		}
		if who != nil {
			c.serveReader(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// awaitReader limits the request rate of a person to that of one address, however many addresses the person uses.
func (c *Coordinator) awaitReader(w http.ResponseWriter, r *http.Request, who *viewer) error {
	if who == nil || who.session == nil {
		return nil
	}
	signer := who.session.login.Signer
	wait, ok := c.readers.Reserve(signer, costOf(r), 0)
	if ok {
		return nil
	}
	w.Header().Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
	return writ.Errorf(writ.CodeRateLimited, "too many requests by %s", signer).WithHint("wait for the time in Retry-After; a program that polls should watch events instead")
}

// routeOf returns the key of a route in access. Some routers omit the trailing slash.
func routeOf(method, pattern string) string { return method + " /" + strings.Trim(pattern, "/") }

// admit applies the scope of a route to a request. The viewer is nil if the route needs no login.
func (c *Coordinator) admit(r *http.Request, route string, at *chi.Context) (*viewer, error) {
	switch access[route] {
	case forAll, forStrangers, forSigned:
		return nil, nil
	case forEverything:
		return c.admitEverything(r)
	case forSchedulers:
		return c.admitScheduler(r)
	case forReaders:
		return c.viewerOf(r.Context(), r)
	case forProject:
		who, err := c.viewerOf(r.Context(), r)
		if err != nil || who.all {
			return who, err
		}
		return who, c.isReadable(r.Context(), who, at)
	default:
		return nil, writ.Errorf(writ.CodeRoleMissing, "%s is disabled", route)
	}
}

func (c *Coordinator) admitEverything(r *http.Request) (*viewer, error) {
	who, err := c.viewerOf(r.Context(), r)
	if err == nil && !who.all {
		err = writ.Errorf(writ.CodeRoleMissing, "cannot show %s to %s: it covers all projects, and %[2]s may read only some of them", r.URL.Path, who.session.login.Signer).
			WithHint("a root operator can bind a role to all: writ user add %s --role viewer --project '*'", who.session.login.Signer)
	}
	return who, err
}

// admitScheduler admits readers of all projects who may cordon nodes.
func (c *Coordinator) admitScheduler(r *http.Request) (*viewer, error) {
	who, err := c.admitEverything(r)
	if err != nil || who.session == nil {
		return who, err
	}
	roster, err := c.rosters.Newest(r.Context())
	if err != nil {
		return nil, err
	}
	signer := who.session.login.Signer
	if roster.AllowsLogin(who.session.login, identity.ActionScheduleNodes, "", c.Now()) != nil {
		return nil, writ.Errorf(writ.CodeRoleMissing, "cannot show %s to %s: it is for operators and admins of all projects", r.URL.Path, signer).
			WithHint("a root operator can bind the role: writ user add %s --role operator --project '*'", signer)
	}
	return who, nil
}

// isReadable returns nil if a viewer may read the run or submission in the path. Otherwise the error is the same as for
// a missing one.
func (c *Coordinator) isReadable(ctx context.Context, who *viewer, at *chi.Context) error {
	if digest := parameter(at, "digest"); digest != "" {
		d, err := writ.ParseDigest(digest)
		if err != nil {
			return writ.Errorf(writ.CodeBadRequest, "digest: %v", err)
		}
		s, err := c.Ledger.Submission(ctx, d)
		if err == nil && !who.reads(s.Project) {
			err = ledger.NotThere("submission", d)
		}
		return err
	}
	// The API and the pages name this parameter differently.
	id := writ.RunID(cmp.Or(parameter(at, "run"), parameter(at, "id")))
	run, err := c.Ledger.Run(ctx, id)
	if err == nil && !who.reads(run.Project) {
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

// viewerFrom returns the viewer of a request to a route for readers.
func viewerFrom(ctx context.Context) *viewer {
	if r := askedOf(ctx).viewer; r != nil {
		return r
	}
	return &viewer{} // reads nothing
}

// pageReader describes the reader of a request to the dashboard.
func (c *Coordinator) pageReader(ctx context.Context) dashboard.Reader {
	who := viewerFrom(ctx)
	reader := dashboard.Reader{All: who.all, Projects: who.projects}
	if who.session == nil {
		return reader
	}
	login, roster := who.session.login, c.rosters.Current()
	reader.Name, reader.Until = login.Signer, login.Until
	reader.May = func(action identity.Action, project writ.ProjectID) bool {
		return roster != nil && roster.AllowsLogin(login, action, project, c.Now()) == nil
	}
	return reader
}

// deny answers a request that was not admitted: with a problem for the API, with a page that explains how to log in for
// the dashboard.
func (c *Coordinator) deny(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/metrics" {
		c.fail(w, r, err)
		return
	}
	askForLogin(w.Header(), err)
	c.pages.Refuse(w, r, err)
}

// askForLogin adds the authentication header to an error response if a login is missing.
func askForLogin(h http.Header, err error) {
	if writ.CodeOf(err) == writ.CodeLoginRequired {
		h.Set("WWW-Authenticate", `Bearer realm="writ"`)
	}
}

// cookieName returns the name of the browser's cookie. With TLS, the __Host- prefix makes the browser reject this
// cookie from any other host.
func (c *Coordinator) cookieName() string {
	if c.overTLS() {
		return "__Host-writ"
	}
	return "writ"
}

func (c *Coordinator) overTLS() bool { return strings.HasPrefix(c.PublicURL, "https:") }

// browserLogin exchanges the code in a form for a cookie, which expires with the session.
func (c *Coordinator) browserLogin(w http.ResponseWriter, r *http.Request) {
	t, err := c.logins.exchange(r.PostFormValue("code"), c.Now())
	if err != nil {
		c.refused(r.Context(), c.Log.With("remote", r.RemoteAddr), "login of a browser", err)
		c.pages.Refuse(w, r, err)
		return
	}
	c.revokeCookies(r) // once they are replaced, no logout can revoke them
	http.SetCookie(w, c.cookie(t.Token, t.Until))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// browserLogout revokes the token of a browser's cookie and deletes the cookie. The session continues for its other
// browsers and programs.
func (c *Coordinator) browserLogout(w http.ResponseWriter, r *http.Request) {
	c.revokeCookies(r)
	http.SetCookie(w, c.cookie("", time.Unix(1, 0)))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// revokeCookies revokes the tokens of all cookies of a browser. Other servers on the same host may have set some of
// them.
func (c *Coordinator) revokeCookies(r *http.Request) {
	for _, cookie := range r.CookiesNamed(c.cookieName()) {
		c.logins.revoke(sumOf(cookie.Value))
	}
}

func (c *Coordinator) cookie(token string, expires time.Time) *http.Cookie {
	return &http.Cookie{Name: c.cookieName(), Value: token, Path: "/", Expires: expires, HttpOnly: true, Secure: c.overTLS(), SameSite: http.SameSiteStrictMode}
}

// MetricsHandler serves metrics and health without a login, for a separate listener that only monitoring can reach.
func (c *Coordinator) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	guarded := c.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = metricsPage{c.metrics, r}.VisitGetMetricsResponse(w)
	}))
	for _, route := range metricsRoutes {
		handler := guarded
		if route != "GET /metrics" { // same handler as on the main listener, which has its own guard
			handler = c.handler
		}
		mux.Handle(route, handler)
	}
	mux.Handle("/", c.guard(http.NotFoundHandler()))
	return mux
}
