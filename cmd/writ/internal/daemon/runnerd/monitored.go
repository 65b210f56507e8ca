package runnerd

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"writ/cmd/writ/internal/monitoring"
	"writ/coord/api"
	"writ/runner"
)

// page returns the page for monitoring.
func (r *Runner) page(node *runner.Runner, store string, log *slog.Logger) *monitoring.Page {
	return &monitoring.Page{
		Role: "runner", Version: r.Version, Log: log,
		Of:     []prometheus.Collector{node.Metrics(), (&monitoring.Disk{Data: r.Data, Store: store}).Metrics()},
		Checks: func() []api.Check { return checks(node) },
	}
}

// checks returns the readiness checks of a node.
func checks(node *runner.Runner) []api.Check {
	serving, redis, fault := node.Ready()
	checks := []api.Check{monitoring.Check("serving", serving,
		"the node does not accept jobs yet: it waits for approval or is starting")}
	if !serving {
		return checks
	}
	return append(checks, monitoring.Check("redis", redis, "Redis does not answer"),
		monitoring.Check("node", fault == "", fault))
}
