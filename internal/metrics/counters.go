package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts returns counters of events by labels. The label values must be constants of the program, not texts that
// clients choose, because no counter is ever dropped.
func Counts(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Events returns a counter of events.
func Events(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Durations returns a histogram of durations in seconds. Its buckets cover milliseconds to hours, because the usual
// durations of different operations differ that much.
func Durations(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// DurationsOf returns histograms like Durations by labels. As with Counts, the label values must be constants.
func DurationsOf(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

var buckets = []float64{.001, .004, .016, .064, .25, 1, 4, 15, 60, 240, 900, 3600}

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
