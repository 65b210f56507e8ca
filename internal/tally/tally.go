// Package tally counts what happens in a process, when it happened last, and how long it took: numbers for those who watch the process. It knows
// neither what is counted nor how it is shown. All zero values are ready, and all methods may be called concurrently.
package tally

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Counts says how often something happened, by what it was. It keeps each key for ever, so there must be few: names that are written in the
// program, and none that others choose.
type Counts[K comparable] struct {
	mu  sync.Mutex
	all map[K]int64
}

// Add counts one more.
func (c *Counts[K]) Add(what K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[K]int64)
	}
	c.all[what]++
}

// All returns the counts.
func (c *Counts[K]) All() map[K]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// Total returns how often anything happened.
func (c *Counts[K]) Total() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.all {
		n += times
	}
	return n
}

// Moment is when something happened last.
type Moment struct{ at atomic.Pointer[time.Time] }

// Note keeps that it happened at a time.
func (m *Moment) Note(at time.Time) { m.at.Store(&at) }

// Last returns when it happened last, zero if it never did.
func (m *Moment) Last() time.Time {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// limits are the upper limits of the classes of durations: what is slow here takes milliseconds in one place and minutes in another.
var limits = [...]time.Duration{
	time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond, 250 * time.Millisecond,
	time.Second, 4 * time.Second, 15 * time.Second, time.Minute, 4 * time.Minute, 15 * time.Minute, time.Hour,
}

// Durations says how long something took, each time that it happened.
type Durations struct {
	mu  sync.Mutex
	sum time.Duration
	all [len(limits) + 1]uint64 // by class; the last one is of what took longer than the last limit
}

// Note counts a duration.
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

// Spread is how durations are spread.
type Spread struct {
	Count uint64
	Sum   time.Duration
	Upto  map[time.Duration]uint64 // how many took as long as that or less
}

// Spread returns how they are spread.
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

// DurationsOf are durations by what took them. As with Counts, there must be few keys.
type DurationsOf[K comparable] struct {
	mu  sync.Mutex
	all map[K]*Durations
}

// Note counts a duration.
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

// All returns how they are spread.
func (d *DurationsOf[K]) All() map[K]Spread {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[K]Spread, len(d.all))
	for what, durations := range d.all {
		all[what] = durations.Spread()
	}
	return all
}
