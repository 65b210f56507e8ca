package coord

import (
	"context"
	"time"

	"writ"
)

// followEvery is the interval at which a coordinator polls a shared ledger for the writes of other coordinators. The
// two queries, for new rosters and for the newest event, cost less than a connection that listens for notifications.
// Such a connection would also miss changes while it is down.
const followEvery = 500 * time.Millisecond

// shared is implemented by ledgers that several coordinators may share.
type shared interface{ Shared() bool }

// sharesLedger reports whether other coordinators may write to the ledger.
func (c *Coordinator) sharesLedger() bool {
	l, ok := c.Ledger.(shared)
	return ok && l.Shared()
}

// follow adopts new rosters of the ledger, and wakes all local waiters if the ledger has new events. Waiters were
// already woken for events that this coordinator stored; waking them again is cheap.
func (c *Coordinator) follow(ctx context.Context) {
	if err := c.rosters.Follow(ctx); err != nil && ctx.Err() == nil {
		code := writ.CodeOf(err)
		if times, say := c.lines.Say("rosters of the ledger "+string(code), time.Now()); say { // follow runs twice a second
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
