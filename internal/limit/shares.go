package limit

import (
	"net"
	"sync"

	"writ/internal/fair"
)

// Shares has Size places, which networks may hold for an unlimited time. It limits each network, so that others always
// find a place.
type Shares struct {
	Size int

	units
}

// Enter takes a place for a remote address, if available. The caller must call leave.
func (s *Shares) Enter(remote string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserve(NetworkOf(remote), 1, s.Size-s.taken)
}

// Listener returns a listener whose connections each hold a place while they are open. A connection without a place is
// closed at once.
func (s *Shares) Listener(l net.Listener) net.Listener {
	return &listener{l, func(conn net.Conn) (func(), bool) { return s.Enter(conn.RemoteAddr().String()) }}
}

// units counts the units that networks or people hold.
type units struct {
	mu    sync.Mutex
	has   map[string]int // by network or person
	taken int
}

// reserve takes n units until release is called. It fails if the name already has too many units in relation to the
// free units. The caller holds the lock.
func (u *units) reserve(name string, n, free int) (release func(), ok bool) {
	if !u.take(name, n, free) {
		return nil, false
	}
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.give(name, n)
	}), true
}

// take is like reserve, but the caller releases the units with give.
func (u *units) take(name string, n, free int) bool {
	if !fair.May(u.has[name], free) {
		return false
	}
	if u.has == nil {
		u.has = make(map[string]int)
	}
	u.has[name] += n
	u.taken += n
	return true
}

// give releases units. The caller holds the lock.
func (u *units) give(name string, n int) {
	u.taken -= n
	if u.has[name] -= n; u.has[name] == 0 {
		delete(u.has, name)
	}
}

// Taken returns the number of units that are held.
func (u *units) Taken() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken
}
