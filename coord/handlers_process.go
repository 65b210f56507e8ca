package coord

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"writ"
	"writ/coord/api"
	"writ/coord/api/apiserver"
)

func (h processHandlers) GetHealth(
	context.Context, apiserver.GetHealthRequestObject,
) (apiserver.GetHealthResponseObject, error) {
	return apiserver.GetHealth200JSONResponse{Alive: true, Version: h.c.Version}, nil
}

// GetReadiness reports whether the coordinator can accept submissions. This does not require a connected datacenter.
func (h processHandlers) GetReadiness(
	ctx context.Context, _ apiserver.GetReadinessRequestObject,
) (apiserver.GetReadinessResponseObject, error) {
	check := func(name string, err error) api.Check {
		if err != nil {
			return api.Check{Name: name, Detail: writ.AsError(err).Message}
		}
		return api.Check{Name: name, OK: true}
	}
	roster, err := h.c.rosters.Newest(ctx)
	if err == nil && h.c.Now().After(roster.Expires) {
		err = writ.Errorf(writ.CodeRosterTooOld, "version %d of the roster expired on %s", roster.Version,
			roster.Expires.Format(time.DateOnly))
	}
	checks := []api.Check{check("ledger", h.c.probe.check(ctx)), check("roster", err)}
	if slices.ContainsFunc(checks, func(c api.Check) bool { return !c.OK }) {
		return apiserver.GetReadiness503JSONResponse{Ready: false, Checks: checks}, nil
	}
	return apiserver.GetReadiness200JSONResponse{Ready: true, Checks: checks}, nil
}

func (h processHandlers) GetMetrics(
	ctx context.Context, _ apiserver.GetMetricsRequestObject,
) (apiserver.GetMetricsResponseObject, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	return metricsPage{h.c.monitor, r}, err
}

// metricsPage writes the response with the Prometheus library, in its text format.
type metricsPage struct {
	*monitor
	r *http.Request
}

func (m metricsPage) VisitGetMetricsResponse(w http.ResponseWriter) error {
	// A datacenter that reports two nodes of the same name produces duplicate metrics. They must not hide the metrics
	// of all other datacenters.
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, m.r)
	return nil
}

func (h processHandlers) GetOpenAPI(
	context.Context, apiserver.GetOpenAPIRequestObject,
) (apiserver.GetOpenAPIResponseObject, error) {
	return apiserver.GetOpenAPI200ApplicationYamlResponse{
		Body: bytes.NewReader(api.Spec), ContentLength: int64(len(api.Spec)),
	}, nil
}
