package bench

import (
	"slices"
	"time"
)

// Spread holds percentiles of durations, in seconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	at := func(part int) float64 { return times[min(len(times)*part/100, len(times)-1)].Seconds() }
	return Spread{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// median returns the median, which is the mean of the two middle values for an even number of values.
func median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
