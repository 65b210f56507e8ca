package front

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"writ/supervisor/link"
)

// Promise: Load and attackers: A costly answer counts as several of the 1,000 requests per second of an address.
// How: Each route has a cost: ten for a list, a hundred for starting machines, one per KiB for a plan.
func TestCostlyRequestCountsAsSeveral(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		bytes        int64
		want         int
	}{
		{http.MethodGet, "/v1/runs", 0, 10},
		{http.MethodGet, "/v1/resources", 0, 10},
		{http.MethodGet, "/v1/boots", 0, 100},
		{http.MethodGet, "/", 0, 10},
		{http.MethodGet, "/nodes", 0, 10},
		{http.MethodGet, "/v1/runs/abc", 0, 1},
		{http.MethodGet, "/static/dashboard.css", 0, 1},
		{http.MethodGet, link.Path, 0, 1},
		{http.MethodPost, "/v1/submissions", 2 << 10, 1},
		{http.MethodPost, "/v1/submissions", 200 << 10, 13},
		{http.MethodPost, "/v1/submissions", -1, 64},
		{http.MethodPost, "/v1/datacenters/dc1/plan", 2 << 10, 12},
		{http.MethodPost, "/v1/datacenters/dc1/plan", 300 << 10, 310},
		{http.MethodPost, "/v1/datacenters/dc1/plan", -1, 64},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.ContentLength = tt.bytes
		if got := costOf(r); got != tt.want {
			t.Errorf("%s %s of %d bytes counts as %d, want %d", tt.method, tt.path, tt.bytes, got, tt.want)
		}
	}
}
