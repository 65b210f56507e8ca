// Package tally counts events of a process and records when they last happened and how long they took, for monitoring.
// It knows neither the events nor their presentation. All zero values are ready to use, and all methods may be called
// concurrently.
package tally

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Counts counts events by key. It never drops a key, so keys must be constants of the program, not values chosen by
// clients.
type Counts[K comparable] struct {
	mu  sync.Mutex
	all map[K]int64
}

// Add counts one event.
func (c *Counts[K]) Add(what K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[K]int64)
	}
	c.all[what]++
}

// All returns a copy of the counts.
func (c *Counts[K]) All() map[K]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// Total returns the sum of all counts.
func (c *Counts[K]) Total() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.all {
		n += times
	}
	return n
}

// Moment is the time of the last event.
type Moment struct{ at atomic.Pointer[time.Time] }

// Note records an event at a time.
func (m *Moment) Note(at time.Time) { m.at.Store(&at) }

// Last returns the time of the last event, zero if there was none.
func (m *Moment) Last() time.Time {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// limits are the upper bounds of the histogram buckets. They cover milliseconds to hours, because slow means different
// times in different places.
var limits = [...]time.Duration{
	time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond, 250 * time.Millisecond,
	time.Second, 4 * time.Second, 15 * time.Second, time.Minute, 4 * time.Minute, 15 * time.Minute, time.Hour,
}

// Durations is a histogram of durations.
type Durations struct {
	mu  sync.Mutex
	sum time.Duration
	all [len(limits) + 1]uint64 // counts by bucket; the last bucket has no upper bound
}

// Note records a duration.
func (d *Durations) Note(took time.Duration) {
	class := 0
	for class < len(limits) && took > limits[class] {
		class++
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum += took
	d.all[class]++
}

// Spread is a snapshot of a histogram.
type Spread struct {
	Count uint64
	Sum   time.Duration
	Upto  map[time.Duration]uint64 // cumulative counts by upper bound
}

// Spread returns a snapshot of the histogram.
func (d *Durations) Spread() Spread {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Spread{Sum: d.sum, Upto: make(map[time.Duration]uint64, len(limits))}
	for class, n := range d.all {
		if s.Count += n; class < len(limits) {
			s.Upto[limits[class]] = s.Count
		}
	}
	return s
}

// DurationsOf holds a histogram for each key. As with Counts, there must be few keys.
type DurationsOf[K comparable] struct {
	mu  sync.Mutex
	all map[K]*Durations
}

// Note records a duration.
func (d *DurationsOf[K]) Note(what K, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[K]*Durations)
	}
	if d.all[what] == nil {
		d.all[what] = new(Durations)
	}
	d.all[what].Note(took)
}

// All returns a snapshot of all histograms.
func (d *DurationsOf[K]) All() map[K]Spread {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[K]Spread, len(d.all))
	for what, durations := range d.all {
		all[what] = durations.Spread()
	}
	return all
}
