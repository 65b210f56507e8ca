// Package front has the checks that every request to a coordinator passes before its handler: rate and memory limits,
// origin, rights and body. It also logs and counts requests. It must not depend on the purpose of a request.
package front

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/access"
	"writ/internal/httpguard"
	"writ/internal/limit"
	"writ/internal/metrics"
)

// Front limits and checks requests. Set its fields, then use its middleware in the order Observe, Guard, Authorize,
// StrictBodies.
type Front struct {
	Log      *slog.Logger
	Names    httpguard.Guard
	Gate     *access.Gate
	Refusals *access.Refusals
	// RefusePage answers a browser that was not admitted to a page.
	RefusePage func(w http.ResponseWriter, r *http.Request, err error)

	Rates     limit.Addresses // rate of requests by remote address
	Readers   limit.Names     // rate of requests by logged-in person
	Bodies    limit.Bodies    // bodies of requests that are being received
	Answers   limit.Bodies    // large responses in flight
	Strangers Strangers

	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New returns a Front that registers its metrics.
func New(registry prometheus.Registerer) *Front {
	f := &Front{
		requests: metrics.Counts("writ_http_requests_total", "Requests by route and status.", "method", "route", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "writ_http_request_seconds", Help: "Duration of requests, except streams.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"method", "route"}),
	}
	f.Strangers.Bodies.Size = strangersBodies
	registry.MustRegister(f.requests, f.durations)
	return f
}
