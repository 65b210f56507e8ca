package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
)

// matched returns the routing context of a request that the router matched to pattern.
func matched(pattern string) *chi.Context {
	at := chi.NewRouteContext()
	at.RoutePatterns = []string{pattern}
	return at
}

// A gate without settings admits no reader, and no gate admits a request to a route without a scope.
func TestGateIsClosedByDefault(t *testing.T) {
	logins := NewLogins(Logins{Now: time.Now})
	closed := &Gate{Logins: logins, Browsers: &Browsers{Logins: logins}}
	public := &Gate{Public: true}
	for _, tt := range []struct {
		gate    *Gate
		pattern string
		want    writ.Code
	}{
		{closed, "/v1/runs", writ.CodeLoginRequired},
		{closed, "/v1/runs/{run}", writ.CodeLoginRequired},
		{closed, "/v1/nodes", writ.CodeLoginRequired},
		{closed, "/v1/datacenters/{datacenter}/nodes/{node}/log", writ.CodeLoginRequired},
		{closed, "/healthz", ""},
		{public, "/v1/nodes", ""},
		{public, "/v1/unknown", writ.CodeRoleMissing},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := httptest.NewRequest(method, "/", nil)
			if _, err := tt.gate.Admit(r, matched(tt.pattern)); writ.CodeOf(err) != tt.want {
				t.Errorf("%s %s: %v, want %s", method, tt.pattern, err, tt.want)
			}
		}
	}
	if _, err := public.Admit(httptest.NewRequest(http.MethodPost, "/", nil), matched("/v1/runs")); writ.CodeOf(err) != writ.CodeRoleMissing {
		t.Errorf("POST /v1/runs: %v", err)
	}
	if new(Viewer).Reads("a project") || ViewerOf(t.Context()).Reads("a project") {
		t.Error("the zero viewer reads a project")
	}
}
