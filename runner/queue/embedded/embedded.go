// Package embedded runs a Redis inside this process, for `writ dev`, `writ demo` and tests on machines without
// redis-server. It is a substitute that speaks the protocol and keeps everything in memory. It has no access control
// and is about ten times slower than Redis. Its data is lost with the process, which is harmless, because a queue is
// for delivery only. The package must not know the content of the data.
package embedded

import (
	"context"
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a Redis in this process. Make it with New and call Run; URL returns its address.
type Redis struct {
	listen string
	server *miniredis.Miniredis
	ready  chan struct{} // closed when it listens, or has failed to
	once   sync.Once
	url    string
	err    error
}

// New returns a Redis for a loopback address; "127.0.0.1:0" chooses a port. It listens when Run is called.
func New(listen string) *Redis {
	return &Redis{listen: listen, server: miniredis.NewMiniRedis(), ready: make(chan struct{})}
}

// Run serves until ctx ends, and then returns nil. It returns an error if it cannot listen. It can be called once.
func (r *Redis) Run(ctx context.Context) error {
	r.once.Do(func() {
		defer close(r.ready)
		// Without this, keys with a time to live would never expire.
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

// URL returns the address as soon as Run listens.
func (r *Redis) URL(ctx context.Context) (string, error) {
	select {
	case <-r.ready:
		return r.url, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Flush deletes all data, like FLUSHALL.
func (r *Redis) Flush() { r.server.FlushAll() }
