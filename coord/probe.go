package coord

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"writ"
)

const (
	checkEvery  = time.Second      // the ledger is checked at most this often on request
	watchLedger = 10 * time.Second // the default interval without requests
)

// probe holds the result of the last check of the ledger.
type probe struct {
	every time.Duration // interval without requests; watchLedger if 0
	mu    sync.Mutex
	at    time.Time
	err   error
	state atomic.Int32 // ledgerUnknown, ledgerUp or ledgerDown; for readers that must not wait for a check
}

const (
	ledgerUnknown = iota
	ledgerUp
	ledgerDown
)

// watchLedger checks the ledger until ctx ends, so that the log reports damage and full disks even without requests.
func (c *Coordinator) watchLedger(ctx context.Context) error {
	return every(ctx, cmp.Or(c.probe.every, watchLedger), func(ctx context.Context) { _ = c.ledgerWorks(ctx) })
}

// ledgerWorks returns an error if the ledger is unusable. It logs each change.
func (c *Coordinator) ledgerWorks(ctx context.Context) error {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	if time.Since(c.probe.at) < checkEvery {
		return c.probe.err
	}
	err := c.Ledger.Check(ctx)
	if ctx.Err() != nil {
		return err // cancelled, so not a result
	}
	was := c.probe.err
	c.probe.err, c.probe.at = err, time.Now()
	state := int32(ledgerUp)
	if err != nil {
		state = ledgerDown
	}
	c.probe.state.Store(state)
	switch {
	case err != nil && was == nil:
		e := writ.AsError(err)
		c.Log.ErrorContext(ctx, "the ledger cannot be used: new work is refused, and events wait in the datacenters", "code", e.Code, "err", e, "hint", e.Hint)
		c.news.Wake()
	case err == nil && was != nil:
		c.Log.InfoContext(ctx, "the ledger can be used again")
		c.news.Wake()
	}
	return err
}
