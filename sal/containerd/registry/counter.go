package registry

import (
	"fmt"
	"sync"
	"time"
)

// progressPause is the least time between two lines of progress.
const progressPause = 2 * time.Second

// counter counts downloaded bytes and reports them.
type counter struct {
	total    int64
	progress func(line string)

	mu   sync.Mutex
	done int64
	last time.Time
}

func (c *counter) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += int64(len(text))
	if now := time.Now(); now.Sub(c.last) >= progressPause {
		c.last = now
		c.progress(fmt.Sprintf("pulled %d of %d MiB of the image", c.done>>20, (c.total+1<<20-1)>>20))
	}
	return len(text), nil
}
