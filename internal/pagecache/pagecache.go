// Package pagecache shares encoded pages between any number of callers. It limits the memory of all pages together,
// including pages that slow callers still read. It must not know the content of pages.
package pagecache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrBusy means that the requested page did not fit beside the pages that other callers hold.
var ErrBusy = errors.New("too many different pages are in use")

// Cache builds each page once and keeps pages up to MaxBytes. Set the fields before the first call.
type Cache struct {
	MaxBytes int           // limits the size of all pages; one page may be larger if it is alone
	Patience time.Duration // limits the wait for room

	once  sync.Once
	build chan struct{} // holds one token: one page is built at a time

	mu    sync.Mutex
	pages map[string]*page // by key
	bytes int              // of pages, and of dropped pages that are in use
	clock int64            // counts calls of Get
	freed chan struct{}    // closed and replaced when a page loses its last user
}

type page struct {
	body    []byte
	users   int
	used    int64 // value of the clock at the last use
	dropped bool  // not in the map any more
}

func (c *Cache) init() {
	c.once.Do(func() {
		c.build = make(chan struct{}, 1)
		c.pages = make(map[string]*page)
		c.freed = make(chan struct{})
	})
}

// Get returns the page of a key. If it is missing, build makes it. The caller must not change the page, and calls release once it is done
// with it. The error is ErrBusy, the error of build or the error of the context.
func (c *Cache) Get(ctx context.Context, key string, build func(context.Context) ([]byte, error)) (body []byte, release func(), err error) {
	c.init()
	if p := c.find(key); p != nil {
		return p.body, c.releaser(p), nil
	}
	patient, stop := context.WithTimeoutCause(ctx, c.Patience, ErrBusy)
	defer stop()
	select {
	case c.build <- struct{}{}:
		defer func() { <-c.build }()
	case <-patient.Done():
		return nil, nil, context.Cause(patient)
	}
	if p := c.find(key); p != nil { // another caller has built it meanwhile
		return p.body, c.releaser(p), nil
	}
	if body, err = build(ctx); err != nil {
		return nil, nil, err
	}
	p := &page{body: body}
	if err := c.add(patient, key, p); err != nil {
		return nil, nil, err
	}
	return p.body, c.releaser(p), nil
}

// Forget drops all pages. Pages in use count until their callers release them.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.pages {
		c.drop(key)
	}
}

// Bytes returns the size of all pages that are cached or in use.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// find returns the cached page of a key with one more user, or nil.
func (c *Cache) find(key string) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pages[key]
	if p != nil {
		c.use(p)
	}
	return p
}

func (c *Cache) use(p *page) {
	c.clock++
	p.users++
	p.used = c.clock
}

// add stores a page once there is room for it.
func (c *Cache) add(ctx context.Context, key string, p *page) error {
	for {
		freed, ok := c.tryAdd(key, p)
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryAdd stores a page if there is room for it, and otherwise returns a channel that closes when a page is released.
func (c *Cache) tryAdd(key string, p *page) (freed <-chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes > 0 && c.bytes+len(p.body) > c.MaxBytes {
		oldest := c.oldestIdle()
		if oldest == "" {
			return c.freed, false
		}
		c.drop(oldest)
	}
	c.pages[key] = p
	c.bytes += len(p.body)
	c.use(p)
	return nil, true
}

// oldestIdle returns the key of the page without users that was used least recently, or "".
func (c *Cache) oldestIdle() (oldest string) {
	for key, p := range c.pages {
		if p.users == 0 && (oldest == "" || p.used < c.pages[oldest].used) {
			oldest = key
		}
	}
	return oldest
}

// drop removes a page from the map.
func (c *Cache) drop(key string) {
	p := c.pages[key]
	delete(c.pages, key)
	p.dropped = true
	if p.users == 0 {
		c.bytes -= len(p.body)
	}
}

// releaser returns the function that ends one use of a page.
func (c *Cache) releaser(p *page) func() {
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.users--
		if p.users > 0 {
			return
		}
		if p.dropped {
			c.bytes -= len(p.body)
		}
		close(c.freed)
		c.freed = make(chan struct{})
	})
}
