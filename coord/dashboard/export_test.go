package dashboard

// Remember sets the points of the chart of all queues, as if they had been sampled: unix milliseconds, running, queued,
// planned.
func (d *Dashboard) Remember(samples [][4]int64) {
	d.past.mu.Lock()
	defer d.past.mu.Unlock()
	d.past.sums = nil
	for _, s := range samples {
		d.past.sums = append(d.past.sums, sample(s))
	}
}

// Forget makes the next page read everything again.
func (d *Dashboard) Forget() {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	d.now.last = nil
}
