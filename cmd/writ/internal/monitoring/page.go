// Package monitoring serves the metrics, the health and the readiness of a daemon. It must not know which metrics a
// daemon has, or where the page listens.
package monitoring

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"writ/coord/api"
	"writ/internal/httpguard"
	"writ/internal/metrics"
)

// Limits on the load that clients of the metrics listener can cause.
const (
	answerWithin = 8 * time.Second // below Prometheus's default scrape timeout of 10 s
	maxAtOnce    = 4
)

// Page is the metrics page of one daemon. Set the fields, then call Handler.
type Page struct {
	Role    string // "supervisor"
	Version string
	Names   []string // accepted host names, in addition to addresses and the name of this machine
	Of      []metrics.Part
	Checks  func() []api.Check // readiness checks of the daemon
	Log     *slog.Logger
}

// Handler serves /metrics, /healthz and /readyz without authentication. A scrape that exceeds the timeout fails.
func (p *Page) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Process(p.Version, p.Role))
	for _, part := range p.Of {
		registry.MustRegister(part)
	}
	mux := http.NewServeMux()
	for route, handler := range p.routes(registry) {
		mux.Handle(route, handler)
	}
	guard := &httpguard.Guard{Names: p.Names, Hint: "use the address of the listener"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Check(r); err != nil {
			problem := api.ProblemOf(err, "")
			w.Header().Set("Content-Type", api.ProblemType)
			p.answer(r.Context(), w, problem.Status, problem)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// routes returns the handlers of the listener by route. None requires authentication.
func (p *Page) routes(registry prometheus.Gatherer) map[string]http.Handler {
	return map[string]http.Handler{
		"GET /metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, Timeout: answerWithin, MaxRequestsInFlight: maxAtOnce,
		}),
		"GET /healthz": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.answer(r.Context(), w, http.StatusOK, api.Health{Alive: true, Version: p.Version})
		}),
		"GET /readyz": http.HandlerFunc(p.answerReady),
	}
}

// Routes lists the routes of every metrics listener.
func Routes() []string {
	return slices.Sorted(maps.Keys(new(Page).routes(prometheus.NewRegistry())))
}

func (p *Page) answerReady(w http.ResponseWriter, r *http.Request) {
	ready, status := api.Readiness{Ready: true, Checks: p.Checks()}, http.StatusOK
	for _, check := range ready.Checks {
		if !check.OK {
			ready.Ready, status = false, http.StatusServiceUnavailable
		}
	}
	p.answer(r.Context(), w, status, ready)
}

// answer writes a value as JSON.
func (p *Page) answer(ctx context.Context, w http.ResponseWriter, status int, what any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(what); err != nil {
		p.Log.DebugContext(ctx, "answer a request for health", "err", err)
	}
}

// Check returns one readiness check. The detail is empty if the check passes.
func Check(name string, ok bool, otherwise string) api.Check {
	if ok {
		otherwise = ""
	}
	return api.Check{Name: name, OK: ok, Detail: otherwise}
}
