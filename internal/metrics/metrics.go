// Package metrics sends the metrics of the parts of a process to Prometheus. A part names each metric in one place,
// with its help text, its labels and its value. Counters and histograms come from the Prometheus library. The package
// depends neither on single parts nor on the server of the metrics.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Part sends the metrics of a part to a scrape. It is an unchecked prometheus.Collector, because a part may have no
// value for some of its metrics.
type Part func(to *Scrape)

// Describe implements prometheus.Collector.
func (p Part) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p Part) Collect(ch chan<- prometheus.Metric) { p(&Scrape{samples: ch}) }

// Declared sends the metrics that p declares now, for tests. It includes metrics without samples.
func (p Part) Declared(ch chan<- *prometheus.Desc) { p(&Scrape{declared: ch}) }

// Scrape receives the metrics of one scrape, or only their declarations.
type Scrape struct {
	samples  chan<- prometheus.Metric
	declared chan<- *prometheus.Desc
}

// Send sends one sample of a metric. labels holds the values of its labels.
type Send func(value float64, labels ...string)

// Gauge declares a metric that may rise and fall.
func (s *Scrape) Gauge(name, help string, labels ...string) Send {
	return s.declare(prometheus.GaugeValue, prometheus.NewDesc(name, help, labels, nil))
}

// Counter declares a metric that only rises, except when its process restarts.
func (s *Scrape) Counter(name, help string, labels ...string) Send {
	return s.declare(prometheus.CounterValue, prometheus.NewDesc(name, help, labels, nil))
}

func (s *Scrape) declare(kind prometheus.ValueType, d *prometheus.Desc) Send {
	if s.declared != nil {
		s.declared <- d
	}
	return func(value float64, labels ...string) {
		if s.samples != nil {
			s.samples <- prometheus.MustNewConstMetric(d, kind, value, labels...)
		}
	}
}

// Value sends a gauge without labels.
func (s *Scrape) Value(name, help string, value float64) { s.Gauge(name, help)(value) }

// Flag sends a gauge that is 1 or 0.
func (s *Scrape) Flag(name, help string, is bool) { s.Value(name, help, Bool(is)) }

// Time sends a gauge in unix seconds. A zero time has no sample.
func (s *Scrape) Time(name, help string, at time.Time) {
	if send := s.Gauge(name, help); !at.IsZero() {
		send(Unix(at))
	}
}

// Include sends counters and histograms of the Prometheus library.
func (s *Scrape) Include(all ...prometheus.Collector) {
	for _, c := range all {
		if s.declared != nil {
			c.Describe(s.declared)
		}
		if s.samples != nil {
			c.Collect(s.samples)
		}
	}
}

// Bool returns 1 for true and 0 for false.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Unix returns a time in unix seconds, to the millisecond.
func Unix(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// Process sends the metrics of every process: version and role, the Go runtime, and the operating system.
func Process(version, role string) Part {
	system := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	runtime := collectors.NewGoCollector()
	return func(to *Scrape) {
		to.Gauge("writ_build_info", "1, with the version of this program.", "version", "role")(1, version, role)
		to.Include(runtime, system)
	}
}
