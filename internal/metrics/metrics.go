// Package metrics declares the metrics of a process for Prometheus. One expression has the name, the help text, the
// labels and the function that reads the value, so a metric is written once, in the part that it describes. Counters
// and histograms come from the Prometheus library. The package must not know any metric or how a page is served.
package metrics

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// List is a list of metrics. It implements prometheus.Collector.
type List []prometheus.Collector

// Describe implements prometheus.Collector.
func (l List) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range l {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (l List) Collect(ch chan<- prometheus.Metric) {
	for _, c := range l {
		c.Collect(ch)
	}
}

// Process returns the metrics of every process: version and role, the Go runtime, and the operating system.
func Process(version, role string) prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "writ_build_info", Help: "1, with the version of this program.",
		ConstLabels: prometheus.Labels{"version": version, "role": role},
	})
	build.Set(1)
	return List{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

// Send sends one sample of a metric to a scrape. labels holds the values of its labels.
type Send func(value float64, labels ...string)

// If sends a sample if it is known.
func (s Send) If(known bool, value float64, labels ...string) {
	if known {
		s(value, labels...)
	}
}

// Reading is a metric whose samples are read from a T at each scrape.
type Reading[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(of T, send Send)
}

// Gauge declares a metric that may rise and fall.
func Gauge[T any](name, help string, labels []string, read func(of T, send Send)) Reading[T] {
	return Reading[T]{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, read}
}

// Counter declares a metric that only rises, except when its process restarts.
func Counter[T any](name, help string, labels []string, read func(of T, send Send)) Reading[T] {
	return Reading[T]{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, read}
}

// Number declares a gauge without labels.
func Number[T any, N ~int | ~int64 | ~float64](name, help string, read func(of T) N) Reading[T] {
	return Gauge(name, help, nil, func(of T, send Send) { send(float64(read(of))) })
}

// Flag declares a gauge without labels that is 1 or 0.
func Flag[T any](name, help string, read func(of T) bool) Reading[T] {
	return Gauge(name, help, nil, func(of T, send Send) { send(Bool(read(of))) })
}

// Time declares a gauge in unix seconds. A zero time has no sample.
func Time[T any](name, help string, read func(of T) time.Time) Reading[T] {
	return Gauge(name, help, nil, func(of T, send Send) {
		at := read(of)
		send.If(!at.IsZero(), Unix(at))
	})
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

// Of returns the collector of the metrics of one value.
func Of[T any](value T, metrics ...Reading[T]) prometheus.Collector {
	return Each(func(yield func(T) bool) { yield(value) }, metrics...)
}

// Each returns the collector of the metrics of several values, which each scrape lists again.
func Each[T any](all iter.Seq[T], metrics ...Reading[T]) prometheus.Collector {
	return each[T]{all, metrics}
}

type each[T any] struct {
	all     iter.Seq[T]
	metrics []Reading[T]
}

func (e each[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range e.metrics {
		ch <- m.desc
	}
}

func (e each[T]) Collect(ch chan<- prometheus.Metric) {
	for of := range e.all {
		for _, m := range e.metrics {
			m.read(of, func(value float64, labels ...string) {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
			})
		}
	}
}

// Counts returns counters of events by labels. Their values must be constants of the program, not texts that clients
// choose, because no counter is ever dropped.
func Counts(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Events returns a counter of events.
func Events(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Durations returns a histogram of durations in seconds.
func Durations(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(durations(name, help))
}

// DurationsOf returns histograms of durations in seconds by labels. As with Counts, the labels must be constants.
func DurationsOf(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(durations(name, help), labels)
}

// durations returns options with buckets from milliseconds to hours, because slow means different times in different
// places.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: []float64{.001, .004, .016, .064, .25, 1, 4, 15, 60, 240, 900, 3600},
	}
}

// Moment holds the time of the last event, to the millisecond. The zero value holds the zero time.
type Moment struct{ unixMilli atomic.Int64 }

// Note records an event.
func (m *Moment) Note(at time.Time) { m.unixMilli.Store(at.UnixMilli()) }

// Last returns the time of the last event, or the zero time.
func (m *Moment) Last() time.Time {
	if at := m.unixMilli.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}
