package limit

import (
	"sync"

	"writ/internal/fair"
)

// Shares are so many places that networks share, for as long as each of them likes: none can have so many that nothing is left for others.
type Shares struct {
	Size int

	mu    sync.Mutex
	has   map[string]int // by network
	taken int
}

// Enter takes a place for somebody at a remote address, unless there is none for it. Whoever gets one calls leave.
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

// Taken returns how many places are taken.
func (s *Shares) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
