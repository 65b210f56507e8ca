package coord

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/access"
	"writ/coord/api/apiserver"
	"writ/coord/front"
	"writ/supervisor/link"
)

// routes assembles the API, the link and the dashboard, with the middleware that limits cost and checks access.
func (c *Coordinator) routes() http.Handler {
	r := chi.NewRouter()
	var router chi.Routes = r
	r.Use(c.front.Observe, c.front.Guard, front.HeadAsGet)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		c.front.Fail(w, r,
			writ.Errorf(writ.CodeNotFound, "unknown address %s", r.URL.Path).WithHint("/openapi.yaml lists the addresses"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", front.Allowed(router, r.URL.Path))
		c.front.Fail(w, r,
			writ.Errorf(writ.CodeMethodNotAllowed, "the method %s is not allowed at %s", r.Method, r.URL.Path).
				WithHint("/openapi.yaml lists the methods"))
	})
	routes := r.With(c.front.Authorize, c.front.StrictBodies)
	strict := apiserver.NewStrictHandlerWithOptions(newHandlers(c),
		[]apiserver.StrictMiddlewareFunc{front.CheckParameters}, apiserver.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
				c.front.Fail(w, r, front.BadRequest(err))
			},
			ResponseErrorHandlerFunc: c.front.Fail,
		})
	apiserver.HandlerWithOptions(strict, apiserver.ChiServerOptions{
		BaseRouter: routes,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			c.front.Fail(w, r, front.BadRequest(err))
		},
	})
	routes.Get(link.Path, c.links.ServeHTTP)
	routes.Post("/login", c.browserLogin)
	routes.Post("/logout", c.browserLogout)
	c.pages.Register(routes)
	return r
}

// MetricsHandler serves metrics and health without a login, for a separate listener that only monitoring can reach.
func (c *Coordinator) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	guarded := c.front.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = metricsPage{c.monitor, r}.VisitGetMetricsResponse(w)
	}))
	for _, route := range metricsRoutes {
		handler := guarded
		if route != "GET /metrics" { // same handler as on the main listener, which has its own guard
			handler = c.handler
		}
		mux.Handle(route, handler)
	}
	mux.Handle("/", c.front.Guard(http.NotFoundHandler()))
	return mux
}

// metricsRoutes lists the routes of MetricsHandler.
var metricsRoutes = []string{"GET /metrics", "GET /healthz", "GET /readyz"}

// MetricsRoutes lists the routes of MetricsHandler. They need no login.
func MetricsRoutes() []string { return slices.Clone(metricsRoutes) }

// browserLogin exchanges the code in a form for a cookie.
func (c *Coordinator) browserLogin(w http.ResponseWriter, r *http.Request) {
	cookie, err := c.gate.Browsers.Login(r)
	if err != nil {
		c.refusals.Record(r.Context(), c.Log.With("remote", r.RemoteAddr), "login of a browser", err)
		c.pages.Refuse(w, r, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// browserLogout revokes the token of a browser's cookie and deletes the cookie.
func (c *Coordinator) browserLogout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, c.gate.Browsers.Logout(r))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// handlers implements the generated server interface. Each method parses its parameters, calls one method of a part of
// the coordinator, and converts the result.
type handlers struct {
	clusterHandlers
	copyHandlers
	loginHandlers
	processHandlers
	standingHandlers
	workHandlers
}

// Handlers by subject. The files named after them hold their methods.
type (
	clusterHandlers  struct{ base } // rosters, datacenters, registrations and projects
	copyHandlers     struct{ base } // lists of nodes, resources and other items of datacenters
	loginHandlers    struct{ base } // sessions of readers
	processHandlers  struct{ base } // this process
	standingHandlers struct{ base } // signed answers of datacenters
	workHandlers     struct{ base } // submissions and runs
)

// base gives handlers access to the coordinator.
type base struct{ c *Coordinator }

var _ apiserver.StrictServerInterface = handlers{}

func newHandlers(c *Coordinator) handlers {
	b := base{c}
	return handlers{
		clusterHandlers{b}, copyHandlers{b}, loginHandlers{b}, processHandlers{b}, standingHandlers{b}, workHandlers{b},
	}
}

// remote returns the remote address of a request.
func remote(ctx context.Context) string { return access.RequestOf(ctx).Remote }
