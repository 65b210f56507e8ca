package dashboard

import (
	"time"

	"writ"
	"writ/coord/api"
)

// Remember sets the points of the chart of all queues, as if they had been sampled: unix milliseconds, running, queued,
// planned.
func (d *Dashboard) Remember(samples [][4]int64) {
	d.source.forget()
	for _, s := range samples {
		d.source.past.add(time.UnixMilli(s[0]), []api.DatacenterQueues{{Queues: []writ.QueueDepth{
			{Running: int(s[1]), Queued: int(s[2]), Planned: int(s[3])},
		}}})
	}
}

// Forget makes the next page read everything again.
func (d *Dashboard) Forget() { d.source.forget() }
