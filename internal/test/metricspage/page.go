package metricspage

import (
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"writ/internal/metrics"
)

// Page holds the metrics of a scrape by name.
type Page map[string]*dto.MetricFamily

// Read collects the metrics of a part.
func Read(t testing.TB, part metrics.Part) Page {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(part)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	page := make(Page, len(families))
	for _, f := range families {
		page[f.GetName()] = f
	}
	return page
}

// Parse reads a scrape in the text format.
func Parse(t testing.TB, text io.Reader) Page {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	page, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// Value returns the first sample of a metric that has the given labels, as pairs of name and value, or -1 without such a
// sample. The value of a histogram is its number of observations.
func (p Page) Value(name string, labels ...string) float64 {
	for _, m := range p[name].GetMetric() {
		have := make(map[string]string)
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && have[labels[i]] == labels[i+1]
		}
		if fits {
			return valueOf(m)
		}
	}
	return -1
}

// Sum returns the sum of all samples of a metric.
func (p Page) Sum(name string) (sum float64) {
	for _, m := range p[name].GetMetric() {
		sum += valueOf(m)
	}
	return sum
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Counter != nil:
		return m.Counter.GetValue()
	}
	return m.Gauge.GetValue()
}
