package coord

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/broadcast"
	"writ/ledger"
)

const (
	checkEvery  = time.Second      // minimum time between two checks of the ledger
	watchLedger = 10 * time.Second // default interval of checks without requests
)

// probe holds the result of the last check of the ledger.
type probe struct {
	ledger ledger.Ledger
	log    *slog.Logger
	news   *broadcast.Signal // signals a change of the result
	every  time.Duration     // interval of checks without requests; watchLedger if 0
	mu     sync.Mutex
	at     time.Time
	err    error
	state  atomic.Int32 // ledgerUnknown, ledgerUp or ledgerDown; for readers that must not wait for a check
}

const (
	ledgerUnknown = iota
	ledgerUp
	ledgerDown
)

// watch checks the ledger, so that the log reports damage and full disks even without requests.
func (p *probe) watch(ctx context.Context) { _ = p.check(ctx) }

// check returns an error if the ledger is unusable. Within checkEvery it returns the previous result. It logs each
// change of the result.
func (p *probe) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < checkEvery {
		return p.err
	}
	err := p.ledger.Check(ctx)
	if ctx.Err() != nil {
		return err // cancelled, so not a result
	}
	was := p.err
	p.err, p.at = err, time.Now()
	state := int32(ledgerUp)
	if err != nil {
		state = ledgerDown
	}
	p.state.Store(state)
	switch {
	case err != nil && was == nil:
		e := writ.AsError(err)
		p.log.ErrorContext(ctx, "the ledger cannot be used: new work is refused, and events wait in the datacenters",
			"code", e.Code, "err", e, "hint", e.Hint)
		p.news.Wake()
	case err == nil && was != nil:
		p.log.InfoContext(ctx, "the ledger can be used again")
		p.news.Wake()
	}
	return err
}

// down reports whether the last check failed. It never waits for a check.
func (p *probe) down() bool { return p.state.Load() == ledgerDown }
