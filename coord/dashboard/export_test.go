package dashboard

// Remember makes these the points of the chart of all queues, as if they had been sampled then: unix milliseconds, running, queued, planned.
func (d *Dashboard) Remember(samples [][4]int64) {
	d.past.mu.Lock()
	defer d.past.mu.Unlock()
	d.past.sums = nil
	for _, s := range samples {
		d.past.sums = append(d.past.sums, sample(s))
	}
}

// Forget makes the next page look at everything anew.
func (d *Dashboard) Forget() {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	d.now.last = nil
}
