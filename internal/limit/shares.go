package limit

import (
	"sync"

	"writ/internal/fair"
)

// Shares has Size places, which networks may hold for any time. It limits each network, so that others always find a
// place.
type Shares struct {
	Size int

	mu    sync.Mutex
	has   map[string]int // by network
	taken int
}

// Enter takes a place for a remote address, if available. The caller must call leave.
func (s *Shares) Enter(remote string) (leave func(), ok bool) {
	network := NetworkOf(remote)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fair.May(s.has[network], s.Size-s.taken) {
		return nil, false
	}
	if s.has == nil {
		s.has = make(map[string]int)
	}
	s.has[network]++
	s.taken++
	return sync.OnceFunc(func() { s.leave(network) }), true
}

func (s *Shares) leave(network string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.has[network]--; s.has[network] == 0 {
		delete(s.has, network)
	}
}

// Taken returns the number of held places.
func (s *Shares) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
