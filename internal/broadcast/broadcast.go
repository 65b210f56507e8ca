// Package broadcast wakes goroutines that wait for a change. It does not carry the change itself: a woken goroutine
// reads the state again.
package broadcast

import "sync"

// Signal wakes all its waiters. The zero value is ready to use.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that is closed by the following Wake. Callers get the channel before they read the state, so
// that they miss no change.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Wake closes the channels that Next has returned.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
