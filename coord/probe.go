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
	checkEvery  = time.Second      // how often readers have the ledger checked at most
	watchLedger = 10 * time.Second // how often it is checked without readers, by default
)

// probe is the result of the last check of the ledger.
type probe struct {
	every time.Duration // how often the ledger is checked without readers; watchLedger if 0
	mu    sync.Mutex
	at    time.Time
	err   error
	state atomic.Int32 // see below; for readers that must not wait for a check
}

const (
	ledgerUnknown = iota
	ledgerUp
	ledgerDown
)

// watchLedger checks the ledger until ctx ends, so that the log tells of damage and full disks that nobody asks for.
func (c *Coordinator) watchLedger(ctx context.Context) error {
	return every(ctx, cmp.Or(c.probe.every, watchLedger), func(ctx context.Context) { _ = c.ledgerWorks(ctx) })
}

// ledgerWorks reports why the ledger cannot be used. It logs each change.
func (c *Coordinator) ledgerWorks(ctx context.Context) error {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	if time.Since(c.probe.at) < checkEvery {
		return c.probe.err
	}
	err := c.Ledger.Check(ctx)
	if ctx.Err() != nil {
		return err // it says nothing about the ledger
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
		c.news.wake()
	case err == nil && was != nil:
		c.Log.InfoContext(ctx, "the ledger can be used again")
		c.news.wake()
	}
	return err
}
