package dashboard

import (
	"time"

	"writ"
	"writ/coord/api"
)

// Remember sets the points of the chart of all queues, as if they had been sampled: unix milliseconds, running, queued,
// planned.
func (d *Dashboard) Remember(samples [][4]int64) {
	d.source.Forget()
	for _, s := range samples {
		d.source.History.Add(time.UnixMilli(s[0]), []api.DatacenterQueues{{Queues: []writ.QueueDepth{
			{Running: int(s[1]), Queued: int(s[2]), Planned: int(s[3])},
		}}})
	}
}

// Forget makes the next page read everything again.
func (d *Dashboard) Forget() { d.source.Forget() }
