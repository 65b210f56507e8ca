package coord

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// routes assembles the API, the link and the dashboard, with the middleware that limits cost and checks access. Each
// handler implements its own route.
func (c *Coordinator) routes() http.Handler {
	r := chi.NewRouter()
	var router chi.Routes = r
	r.Use(c.observe, c.guard, headAsGet)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, writ.Errorf(writ.CodeNotFound, "there is nothing at %s", r.URL.Path).WithHint("/openapi.yaml lists the addresses"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed(router, r.URL.Path))
		c.fail(w, r, writ.Errorf(writ.CodeMethodNotAllowed, "the method %s is not allowed at %s", r.Method, r.URL.Path).WithHint("/openapi.yaml lists the methods"))
	})
	routes := r.With(c.authorize, c.strictBodies)
	strict := api.NewStrictHandlerWithOptions(handlers{c}, []api.StrictMiddlewareFunc{checkParameters}, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  func(w http.ResponseWriter, r *http.Request, err error) { c.fail(w, r, asBadRequest(err)) },
		ResponseErrorHandlerFunc: c.fail,
	})
	api.HandlerWithOptions(strict, api.ChiServerOptions{
		BaseRouter:       routes,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { c.fail(w, r, asBadRequest(err)) },
	})
	routes.Get(link.Path, c.links.ServeHTTP)
	routes.Post("/login", c.browserLogin)
	routes.Post("/logout", c.browserLogout)
	c.pages.Register(routes)
	return r
}

// headAsGet routes HEAD like GET; the server omits the body. The middleware of chi is avoided because its package
// imports net/http/pprof.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// allowed lists the methods of an address, in the format of the Allow header.
func allowed(routes chi.Routes, path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if routes.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// registrationsPath is the path of supervisors' requests for admission to the roster.
const registrationsPath = "/v1/datacenters/registrations"

// planPath matches requests to a datacenter for the preview of a plan.
var planPath = regexp.MustCompile(`^/v1/datacenters/[^/]+/plan$`)

// asBadRequest converts an error of the generated code. It names the invalid parameter and drops the text about
// schemas.
func asBadRequest(err error) error {
	if parameter, ok := errors.AsType[*api.InvalidParamFormatError](err); ok {
		return wrongParameter(parameter.ParamName, "cannot be read")
	}
	if parameter, ok := errors.AsType[*api.RequiredParamError](err); ok {
		return writ.Errorf(writ.CodeBadRequest, "the parameter %q is missing", parameter.ParamName).WithHint("set %s; /openapi.yaml lists the valid values", parameter.ParamName)
	}
	if parameter, ok := errors.AsType[*api.TooManyValuesForParamError](err); ok {
		return writ.Errorf(writ.CodeBadRequest, "the parameter %q occurs %d times", parameter.ParamName, parameter.Count)
	}
	if refused := refusedBody(err); refused != nil {
		return refused
	}
	return writ.Errorf(writ.CodeBadRequest, "invalid body: %v", err)
}

// wrongParameter is the error for a parameter with an invalid value.
func wrongParameter(name, why string) error {
	return writ.Errorf(writ.CodeBadRequest, "the parameter %q %s", name, why).WithHint("omit %s, or set a valid value; see /openapi.yaml", name)
}

// refusedBody returns TOO_LARGE if the body exceeds its limit, and RATE_LIMITED if the server holds too many bodies.
// Otherwise it returns nil.
func refusedBody(err error) error {
	if limited, ok := errors.AsType[*writ.Error](err); ok && limited.Code == writ.CodeRateLimited {
		return limited
	}
	if cut, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return writ.Errorf(writ.CodeTooLarge, "the body has more than %d bytes", cut.Limit)
	}
	return nil
}

// handlers implements the generated server interface. Each method parses its parameters, calls one method of the
// Coordinator or its ledger, and converts the result.
type handlers struct{ c *Coordinator }

var _ api.StrictServerInterface = handlers{}

// remote returns the remote address of a request.
func remote(ctx context.Context) string { return askedOf(ctx).remote }
