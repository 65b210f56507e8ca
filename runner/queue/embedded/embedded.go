// Package embedded runs a Redis inside this process, for `writ dev`, `writ demo` and tests on machines without redis-server: a stand-in
// that speaks the protocol and keeps everything in memory. It has no access control and is about ten times slower than Redis; what
// it holds ends with the process, which is no loss, because a queue is delivery only. It must not know what it holds.
package embedded

import (
	"context"
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a Redis in this process. Make it with New, call Run, and ask for its URL.
type Redis struct {
	listen string
	server *miniredis.Miniredis
	ready  chan struct{} // closed when it listens, or never will
	once   sync.Once
	url    string
	err    error
}

// New returns a Redis that Run will let listen on an address of loopback; "127.0.0.1:0" chooses a port.
func New(listen string) *Redis {
	return &Redis{listen: listen, server: miniredis.NewMiniRedis(), ready: make(chan struct{})}
}

// Run serves until ctx ends, and returns nil then. It returns an error if it cannot listen. It can be called once.
func (r *Redis) Run(ctx context.Context) error {
	r.once.Do(func() {
		defer close(r.ready)
		// Without this nothing with a time to live would ever end.
		r.server.ClockTTL(true)
		if err := r.server.StartAddr(r.listen); err != nil {
			r.err = fmt.Errorf("listen for the embedded Redis: %w", err)
			return
		}
		r.url = "redis://" + r.server.Addr() + "/0"
	})
	if r.err != nil {
		return r.err
	}
	<-ctx.Done()
	r.server.Close()
	return nil
}

// URL returns where it listens, as soon as Run lets it.
func (r *Redis) URL(ctx context.Context) (string, error) {
	select {
	case <-r.ready:
		return r.url, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Flush loses everything, as FLUSHALL does.
func (r *Redis) Flush() { r.server.FlushAll() }
