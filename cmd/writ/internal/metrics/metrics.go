// Package metrics shows what the processes of writ count of themselves as Prometheus reads it. Supervisors and runners give plain numbers; the names
// of metrics, their units and labels are known here. It must not know how a part gets its numbers, nor where it listens.
package metrics

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"writ/coord/api"
	"writ/internal/httpguard"
	"writ/internal/tally"
)

// Bounds of what those who ask for metrics can make a process do.
const (
	answerWithin = 8 * time.Second // a scrape of Prometheus has ten, if its settings do not say otherwise
	maxAtOnce    = 4
)

// Page is what a part shows at its listener for metrics. Fill it in and call Handler.
type Page struct {
	Role    string // "supervisor"
	Version string
	Names   []string // by which it is asked, besides addresses and the name of this machine
	Of      []prometheus.Collector
	Checks  func() []api.Check // what it needs to do its work
	Log     *slog.Logger
}

// Handler serves /metrics, /healthz and /readyz, without a login. An answer that does not come in time is an error.
func (p *Page) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(version(p.Version, p.Role), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(p.Of...)
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

// routes are all that the listener answers. None needs a login.
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

// Routes lists the routes of every listener for metrics.
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

// version is the metric with the version of this program.
func version(version, role string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "writ_build_info", Help: "1, with the version of this program.", ConstLabels: prometheus.Labels{"version": version, "role": role}})
	g.Set(1)
	return g
}

// answer writes what was asked for as JSON.
func (p *Page) answer(ctx context.Context, w http.ResponseWriter, status int, what any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(what); err != nil {
		p.Log.DebugContext(ctx, "answer a request for health", "err", err)
	}
}

// check is one line of what a part needs.
func check(name string, ok bool, otherwise string) api.Check {
	if ok {
		otherwise = ""
	}
	return api.Check{Name: name, OK: ok, Detail: otherwise}
}

// gather sends metrics of one answer.
type gather chan<- prometheus.Metric

func (g gather) gauge(d *prometheus.Desc, value float64, labels ...string) {
	g <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (g gather) counter(d *prometheus.Desc, value int64, labels ...string) {
	g <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// yes sends 1 or 0.
func (g gather) yes(d *prometheus.Desc, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	g.gauge(d, value, labels...)
}

// at sends a time in unix seconds, and nothing for one that there is not.
func (g gather) at(d *prometheus.Desc, when time.Time, labels ...string) {
	if !when.IsZero() {
		g.gauge(d, float64(when.UnixMilli())/1000, labels...)
	}
}

// durations sends how durations are spread, as a histogram in seconds.
func (g gather) durations(d *prometheus.Desc, s tally.Spread, labels ...string) {
	upto := make(map[float64]uint64, len(s.Upto))
	for limit, n := range s.Upto {
		upto[limit.Seconds()] = n
	}
	g <- prometheus.MustNewConstHistogram(d, s.Count, s.Sum.Seconds(), upto, labels...)
}

// describe sends descriptions.
func describe(ch chan<- *prometheus.Desc, all ...*prometheus.Desc) {
	for _, d := range all {
		ch <- d
	}
}

// metric describes a metric.
func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}
