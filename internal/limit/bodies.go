package limit

import (
	"cmp"
	"io"

	"writ"
)

// DefaultBodies is the default of Bodies.Size. It fits a hundred submissions of the maximum size, 576 KiB, and leaves a
// small server most of its memory. Without a limit, slow clients on 8,192 connections could fill 4.5 GiB.
const DefaultBodies = 64 << 20

// Bodies limits the total size of the request bodies or answers in a server's memory. Networks or people share the
// bytes like the places of Shares. The zero value is ready to use.
type Bodies struct {
	Size int // bytes; 0 means DefaultBodies

	units
}

// left returns the number of free bytes that would remain if n more bytes were taken. The caller holds the lock.
func (b *Bodies) left(n int) int { return cmp.Or(b.Size, DefaultBodies) - b.taken - n }

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
		return 0, writ.Errorf(writ.CodeRateLimited, "the server is receiving too many request bodies").
			WithHint("try again in a second")
	}
	return n, err
}

// Reserve counts the bytes of a body for a network or person. If they exceed the limit, ok is false. The bytes count
// until release is called.
func (b *Bodies) Reserve(name string, bytes int) (release func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reserve(name, bytes, b.left(bytes))
}

func (m *meteredBody) charge(n int) bool {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	if m.over || !m.bodies.take(m.network, n, m.bodies.left(n)) {
		return false
	}
	m.has += n
	return true
}

func (m *meteredBody) release() {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	m.over = true
	if m.has > 0 {
		m.bodies.give(m.network, m.has)
		m.has = 0
	}
}
