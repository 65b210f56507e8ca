package herodb

import (
	"sync"
	"time"

	"writ"
)

// starts counts the restarts by Keep of one process that ended by itself.
type starts struct {
	count int
	last  time.Time
}

// Delays before Keep restarts a process that ends repeatedly: none at first, then doubling from firstWait to mostWait.
// A process that ran longer than steady resets the count.
const (
	firstWait = 30 * time.Second
	mostWait  = 10 * time.Minute
	steady    = 20 * time.Minute
)

// wait returns the delay between the last start and the next one.
func (s starts) wait() time.Duration {
	if s.count < 2 {
		return 0
	}
	return min(firstWait<<min(s.count-2, 10), mostWait)
}

// restarts counts the starts of each database. The zero value is empty.
type restarts struct {
	mu sync.Mutex
	of map[writ.ResourceID]starts
}

// due returns the remaining delay before the next start.
func (r *restarts) due(resource writ.ResourceID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[resource]
	return s.wait() - time.Since(s.last)
}

// add counts a start.
func (r *restarts) add(resource writ.ResourceID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[writ.ResourceID]starts{}
	}
	s := r.of[resource]
	if time.Since(s.last) > steady {
		s.count = 0
	}
	r.of[resource] = starts{s.count + 1, time.Now()}
}

// reset forgets the starts of a database.
func (r *restarts) reset(resource writ.ResourceID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, resource)
}
