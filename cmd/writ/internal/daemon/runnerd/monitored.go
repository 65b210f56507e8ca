package runnerd

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"writ/cmd/writ/internal/metrics"
	"writ/coord/api"
	"writ/runner"
)

// page returns the page for monitoring.
func (r *Runner) page(node *runner.Runner, store string, log *slog.Logger) *metrics.Page {
	return &metrics.Page{
		Role: "runner", Version: r.Version, Log: log,
		Of:     []prometheus.Collector{node.Metrics(), (&metrics.Disk{Data: r.Data, Store: store}).Metrics()},
		Checks: func() []api.Check { return checks(node) },
	}
}

// checks returns the readiness checks of a node.
func checks(node *runner.Runner) []api.Check {
	serving, redis, fault := node.Ready()
	checks := []api.Check{metrics.Check("serving", serving,
		"the node does not accept jobs yet: it waits for approval or is starting")}
	if !serving {
		return checks
	}
	return append(checks, metrics.Check("redis", redis, "Redis does not answer"),
		metrics.Check("node", fault == "", fault))
}
