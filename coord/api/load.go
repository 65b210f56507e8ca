package api

import (
	"fmt"
	"strconv"
	"time"
)

// loadFor is how long a report of a load counts as current. Nodes send a report every half minute, and clocks may
// differ.
const loadFor = 5 * time.Minute

// LoadAt returns the load of a resource if it is current at the time `now`. It returns nil if there is no report, if
// the report is older than loadFor, or if Unheard is set.
func (r ListedResource) LoadAt(now time.Time) *Load {
	if r.Load == nil || r.Unheard != nil || now.Sub(r.Load.At) > loadFor {
		return nil
	}
	return r.Load
}

// Peak returns the highest use of processors and of memory in the samples, and the start of the first sample. ok is
// false if there are no samples.
func (l Load) Peak() (milliCPUs, memoryBytes int64, since time.Time, ok bool) {
	for i, s := range l.Samples {
		if i == 0 {
			since = s.At
		}
		milliCPUs, memoryBytes = max(milliCPUs, s.MilliCPUs), max(memoryBytes, s.MemoryBytes)
	}
	return milliCPUs, memoryBytes, since, len(l.Samples) > 0
}

// CPUs formats thousandths of a CPU as CPUs: "0.25".
func CPUs(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', 2, 64) }

// Memory formats bytes of memory: "12 MiB", "1.5 GiB".
func Memory(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", (bytes+1<<19)>>20)
}
