package front

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// HeadAsGet routes HEAD like GET; the server omits the body. The middleware of chi is avoided because its package
// imports net/http/pprof.
func HeadAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// Allowed lists the methods of an address, in the format of the Allow header.
func Allowed(routes chi.Routes, path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if routes.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}
