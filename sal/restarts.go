package sal

import (
	"sync"
	"time"
)

// Pauses configures the pauses before the restarts of a process that ends repeatedly. The first Free restarts have no
// pause. The next pause is First, and each further pause is twice the previous one, up to Longest. After the process
// has run for longer than Steady, the sequence starts again.
type Pauses struct {
	Free                   int
	First, Longest, Steady time.Duration
}

// before returns the pause before a restart. count is the number of earlier restarts.
func (p Pauses) before(count int) time.Duration {
	if count < p.Free {
		return 0
	}
	return min(p.First<<min(count-p.Free, 20), p.Longest)
}

// Restarts schedules the restarts of processes by the host names of their resources. It is held only in memory, so a
// restart of the runner resets the pauses. The zero value is empty.
type Restarts struct {
	mu    sync.Mutex
	names map[string]restart
}

type restart struct {
	count int       // restarts scheduled since the process last ran for longer than Pauses.Steady
	due   time.Time // time of the next restart; zero while the process runs
	began time.Time // time of the last restart
}

// Due returns the time of the next restart of a process that has ended. The pause begins at the first call after the
// end.
func (s *Restarts) Due(name string, p Pauses) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.names[name]
	if !r.due.IsZero() {
		return r.due
	}
	if time.Since(r.began) > p.Steady {
		r.count = 0
	}
	r.due = time.Now().Add(p.before(r.count))
	r.count++
	if s.names == nil {
		s.names = map[string]restart{}
	}
	s.names[name] = r
	return r.due
}

// Began records that the process was started, so that no restart is scheduled.
func (s *Restarts) Began(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.names[name]; ok {
		s.names[name] = restart{count: r.count, began: time.Now()}
	}
}

// Pause returns the remaining pause before a restart, at least one millisecond, or 0 if no restart is scheduled.
func (s *Restarts) Pause(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.names[name]
	if r.due.IsZero() {
		return 0
	}
	return max(time.Until(r.due), time.Millisecond)
}

// Drop forgets the restarts of a process.
func (s *Restarts) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}
