package dashboard

// Remember puts points into the chart, as if somebody had looked then: unix milliseconds, running, queued, planned.
func (d *Dashboard) Remember(samples [][4]int64) {
	d.now.mu.Lock()
	defer d.now.mu.Unlock()
	for _, s := range samples {
		d.now.history = append(d.now.history, sample(s))
	}
}
