//go:build !release

package redisd

import (
	"context"
	"sync"

	"writ/runner/queue/embedded"
)

// standIn serves a Redis inside this process until ctx ends.
func standIn(ctx context.Context, ready func(Started)) error {
	stand := embedded.New("127.0.0.1:0")
	var told sync.WaitGroup
	defer told.Wait()
	told.Go(func() {
		if url, err := stand.URL(ctx); err == nil {
			about := "miniredis inside this process, without accounts of nodes, because redis-server is not on PATH (apt-get install -y redis-server)"
			ready(Started{URL: url, About: about, Stand: true})
		}
	})
	return stand.Run(ctx)
}
