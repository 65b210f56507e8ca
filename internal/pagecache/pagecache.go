// Package pagecache shares encoded pages between any number of callers. It limits the memory of all pages together,
// including pages that slow callers still read. It does not interpret pages.
package pagecache

import (
	"context"
	"errors"
	"sync"
	"time"

	"writ/internal/broadcast"
	"writ/internal/limit"
)

// ErrBusy means that there was no room for the requested page beside the pages that other callers hold.
var ErrBusy = errors.New("too many pages are in use")

// Cache builds each page once and keeps pages up to MaxBytes. Set the fields before the first call.
type Cache struct {
	MaxBytes int           // limits the size of all pages; one page may be larger if it is alone
	Patience time.Duration // limits the wait for room
	// MinHold is how long a caller may always keep a page. Afterwards its lease is revoked if another page needs the
	// room.
	MinHold time.Duration
	// BeforeWait is called before a call of Get waits for other callers. nil does nothing.
	BeforeWait func(context.Context)

	once  sync.Once
	turns limit.Turns // of size 1: one page is built at a time

	mu    sync.Mutex
	pages map[string]*page   // by key
	inUse map[*page]struct{} // pages with leases
	bytes int                // of pages, and of dropped pages that are in use
	clock int64              // counts calls of Get
	freed broadcast.Signal   // wakes when a page loses its last lease
}

type page struct {
	key     string
	body    []byte
	leases  map[*Lease]struct{}
	used    int64 // value of the clock at the last use
	dropped bool  // removed from the map
}

func (c *Cache) init() {
	c.once.Do(func() {
		c.turns.Size = 1
		c.pages = make(map[string]*page)
		c.inUse = make(map[*page]struct{})
	})
}

// Get returns the page of a key for a remote address ("host:port"). If the page is missing, build creates it. Networks
// take turns to build, so that one network cannot make another wait for long. The error is ErrBusy, the error of build
// or the error of the context.
func (c *Cache) Get(
	ctx context.Context, remote, key string, build func(context.Context) ([]byte, error),
) (*Lease, error) {
	c.init()
	network := limit.NetworkOf(remote)
	if lease := c.find(network, key); lease != nil {
		return lease, nil
	}
	if c.BeforeWait != nil {
		c.BeforeWait(ctx)
	}
	patient, stop := context.WithTimeoutCause(ctx, c.Patience, ErrBusy)
	defer stop()
	endTurn, err := c.turns.Take(patient, remote)
	if err != nil {
		return nil, context.Cause(patient)
	}
	defer endTurn()
	if lease := c.find(network, key); lease != nil { // another caller has built it in the meantime
		return lease, nil
	}
	body, err := build(ctx)
	if err != nil {
		return nil, err
	}
	return c.add(patient, network, &page{key: key, body: body, leases: make(map[*Lease]struct{})})
}

// Bytes returns the size of all pages that are cached or in use.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// find returns a lease of the cached page of a key, or nil.
func (c *Cache) find(network, key string) *Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pages[key]; p != nil {
		return c.lease(p, network)
	}
	return nil
}

// lease returns a new lease of a page. The caller holds mu.
func (c *Cache) lease(p *page, network string) *Lease {
	c.clock++
	p.used = c.clock
	l := &Lease{
		Body: p.body, cache: c, page: p, network: network, began: time.Now(), order: c.clock, revoked: make(chan struct{}),
	}
	p.leases[l] = struct{}{}
	c.inUse[p] = struct{}{}
	return l
}

// add stores a page once there is room for it.
func (c *Cache) add(ctx context.Context, network string, p *page) (*Lease, error) {
	for {
		lease, freed := c.tryAdd(network, p)
		if lease != nil {
			return lease, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryAdd stores a page if there is room for it. Otherwise it makes room and returns a channel that closes when a page
// is released.
func (c *Cache) tryAdd(network string, p *page) (lease *Lease, freed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes > 0 && c.bytes+len(p.body) > c.MaxBytes {
		oldest := c.oldestIdle()
		if oldest == nil {
			c.endPages(c.bytes + len(p.body) - c.MaxBytes)
			return nil, c.freed.Next()
		}
		c.drop(oldest)
	}
	c.pages[p.key] = p
	c.bytes += len(p.body)
	return c.lease(p, network), nil
}

// oldestIdle returns the cached page without leases that was used least recently, or nil.
func (c *Cache) oldestIdle() (oldest *page) {
	for _, p := range c.pages {
		if len(p.leases) == 0 && (oldest == nil || p.used < oldest.used) {
			oldest = p
		}
	}
	return oldest
}

// endPages drops pages in use, so that at least the given number of bytes becomes free when their leases are revoked.
func (c *Cache) endPages(bytes int) {
	for p := range c.inUse {
		if p.dropped {
			bytes -= len(p.body)
		}
	}
	for bytes > 0 {
		p := c.victim()
		if p == nil {
			return
		}
		bytes -= len(p.body)
		c.drop(p)
	}
}

// victim returns the cached page in use with the oldest lease of the network that holds the most bytes, or nil.
func (c *Cache) victim() (victim *page) {
	held := make(map[string]int) // bytes by network
	for p := range c.inUse {
		for _, network := range p.networks() {
			held[network] += len(p.body)
		}
	}
	var oldest *Lease
	for p := range c.inUse {
		if p.dropped {
			continue
		}
		for l := range p.leases {
			if oldest == nil || held[l.network] > held[oldest.network] ||
				held[l.network] == held[oldest.network] && l.order < oldest.order {
				victim, oldest = p, l
			}
		}
	}
	return victim
}

// networks returns the networks that hold a page.
func (p *page) networks() (all []string) {
	seen := make(map[string]bool, len(p.leases))
	for l := range p.leases {
		if !seen[l.network] {
			seen[l.network] = true
			all = append(all, l.network)
		}
	}
	return all
}

// drop removes a page from the map. Its leases are revoked once they are MinHold old.
func (c *Cache) drop(p *page) {
	delete(c.pages, p.key)
	p.dropped = true
	if len(p.leases) == 0 {
		c.bytes -= len(p.body)
	}
	for l := range p.leases {
		l.timer = time.AfterFunc(c.MinHold-time.Since(l.began), l.revoke)
	}
}

// release ends a lease.
func (c *Cache) release(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := l.page
	if _, held := p.leases[l]; !held {
		return
	}
	delete(p.leases, l)
	if l.timer != nil {
		l.timer.Stop()
	}
	if len(p.leases) > 0 {
		return
	}
	delete(c.inUse, p)
	if p.dropped {
		c.bytes -= len(p.body)
	}
	c.freed.Wake()
}
