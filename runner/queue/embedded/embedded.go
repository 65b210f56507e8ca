// Package embedded runs a Redis inside this process, for `writ dev`, `writ demo` and tests on machines without
// redis-server. It uses miniredis, which speaks the Redis protocol, keeps all data in memory, has no access control and
// is about ten times slower than Redis. The data is lost with the process, which is harmless, because a queue is for
// delivery only. The package must not depend on the content of the data.
package embedded

import (
	"context"
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a Redis server in this process. Create it with New and call Run; URL returns its address.
type Redis struct {
	listen string
	server *miniredis.Miniredis
	ready  chan struct{} // closed when the server listens or cannot listen
	once   sync.Once
	url    string
	err    error
}

// New returns a Redis for a loopback address; "127.0.0.1:0" chooses a port. The server listens once Run is called.
func New(listen string) *Redis {
	return &Redis{listen: listen, server: miniredis.NewMiniRedis(), ready: make(chan struct{})}
}

// Run serves until ctx ends, and then returns nil. It returns an error if it cannot listen. Call it once.
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

// URL waits until the server listens and returns its address, or the error with which Run failed.
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
