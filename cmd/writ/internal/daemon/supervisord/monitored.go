package supervisord

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"writ/cmd/writ/internal/monitoring"
	"writ/coord/api"
	"writ/supervisor"
)

// page returns the page for monitoring.
func (s *Supervisor) page(datacenter, store string, log *slog.Logger) *monitoring.Page {
	current := prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		supervisor.Metrics(datacenter, s.now.Load()).Collect(ch)
	})
	return &monitoring.Page{
		Role: "supervisor", Version: s.Version, Names: s.AllowedHosts, Checks: s.checks, Log: log,
		Of: []prometheus.Collector{current, (&monitoring.Disk{Data: s.Data, Store: store}).Metrics()},
	}
}

// checks returns the readiness checks of this process.
func (s *Supervisor) checks() []api.Check {
	serving := s.now.Load()
	checks := []api.Check{monitoring.Check("serving", serving != nil,
		"this supervisor does not serve its datacenter: it is on standby or is starting")}
	if serving == nil {
		return checks
	}
	journal, redis := serving.Works()
	return append(checks, monitoring.Check("journal", journal == "", journal),
		monitoring.Check("redis", redis, "Redis does not answer, or rejects writes"))
}
