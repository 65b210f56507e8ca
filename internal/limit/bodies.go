package limit

import (
	"io"
	"sync"

	"writ"
	"writ/internal/fair"
)

// DefaultBodies is the default of Bodies.Size. It fits a hundred submissions of the maximum size, 576 KiB, and leaves a
// small server most of its memory. Without a limit, slow clients on 8,192 connections could fill 4.5 GiB.
const DefaultBodies = 64 << 20

// Bodies limits the total size of the request bodies in a server's memory. Networks share the bytes like the places of
// Shares. The zero value is ready to use.
type Bodies struct {
	Size int // bytes; 0 means DefaultBodies

	mu    sync.Mutex
	has   map[string]int // bytes by network
	taken int
}

// Meter returns a reader of body that counts its bytes for the network of a remote address. If the limit is reached,
// Read returns RATE_LIMITED. The bytes count until release is called.
func (b *Bodies) Meter(remote string, body io.ReadCloser) (metered io.ReadCloser, release func()) {
	m := &meteredBody{ReadCloser: body, bodies: b, network: NetworkOf(remote)}
	return m, m.release
}

type meteredBody struct {
	io.ReadCloser
	bodies  *Bodies
	network string
	has     int // guarded by bodies.mu
	over    bool
}

func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if n > 0 && !m.charge(n) {
		return 0, writ.Errorf(writ.CodeRateLimited, "the server receives too many request bodies at the same time").WithHint("try again in a second")
	}
	return n, err
}

func (m *meteredBody) charge(n int) bool {
	b := m.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.Size
	if size == 0 {
		size = DefaultBodies
	}
	if m.over || !fair.May(b.has[m.network], size-b.taken-n) {
		return false
	}
	if b.has == nil {
		b.has = make(map[string]int)
	}
	m.has += n
	b.has[m.network] += n
	b.taken += n
	return true
}

func (m *meteredBody) release() {
	b := m.bodies
	b.mu.Lock()
	defer b.mu.Unlock()
	m.over = true
	if m.has == 0 {
		return
	}
	b.taken -= m.has
	if b.has[m.network] -= m.has; b.has[m.network] == 0 {
		delete(b.has, m.network)
	}
	m.has = 0
}

// Taken returns the number of bytes in memory.
func (b *Bodies) Taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}
