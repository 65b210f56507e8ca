package coord

import (
	"context"
	"time"

	"writ"
)

// followEvery bounds the delay until a coordinator sees the writes of another coordinator to their shared ledger. It
// polls: two cheap queries twice a second, for new rosters and for the newest event, cost less than a connection that
// listens for notifications. Polling also misses no change, as such a connection would while it is down.
const followEvery = 500 * time.Millisecond

// shared is implemented by ledgers that several coordinators may share.
type shared interface{ Shared() bool }

// sharesLedger reports whether other coordinators may write to the ledger.
func (c *Coordinator) sharesLedger() bool {
	l, ok := c.Ledger.(shared)
	return ok && l.Shared()
}

// follow wakes all local waiters if the ledger has new events. Events of this coordinator were announced already; the
// repeated wake is cheap.
func (c *Coordinator) follow(ctx context.Context) {
	if err := c.rosters.Follow(ctx); err != nil && ctx.Err() == nil {
		code := writ.CodeOf(err)
		if times, say := c.lines.Say("rosters of the ledger "+string(code), time.Now()); say { // it runs twice a second
			c.Log.WarnContext(ctx, "read the rosters of the ledger; trying again", "code", code, "err", err, "times", times)
		}
	}
	_, newest, err := c.Ledger.EventRange(ctx)
	if err != nil || newest == c.followed {
		return // other queries report errors of the ledger
	}
	c.followed = newest
	c.news.Wake()
	c.delivery.WakeAll()
}
