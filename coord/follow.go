package coord

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/identity"
)

// followEvery is how soon a coordinator learns what another one wrote to the ledger that both share. A question for one number and one for
// no row, twice a second, cost less than a connection that only listens, and cannot be missed while the connection is away.
const followEvery = 500 * time.Millisecond

// shared is a ledger that other coordinators may write to as well.
type shared interface{ Shared() bool }

// sharesLedger reports whether the coordinator may have to follow others.
func (c *Coordinator) sharesLedger() bool {
	l, ok := c.Ledger.(shared)
	return ok && l.Shared()
}

// follow lets everybody who waits here look again if something was written to the ledger since the last time, by whomever. What the
// coordinator wrote itself they have seen; to look once more is cheap.
func (c *Coordinator) follow(ctx context.Context) {
	if err := c.followRosters(ctx); err != nil && ctx.Err() == nil {
		code := writ.CodeOf(err)
		if times, say := c.lines.Say("rosters of the ledger "+string(code), time.Now()); say { // it is tried twice a second
			c.Log.WarnContext(ctx, "read the rosters of the ledger; trying again", "code", code, "err", err, "times", times)
		}
	}
	_, newest, err := c.Ledger.EventRange(ctx)
	if err != nil || newest == c.followed {
		return // whoever asks the ledger for more than that says what is wrong with it
	}
	c.followed = newest
	c.news.wake()
	c.outbox.wakeAll()
}

// followRosters adopts the rosters that another coordinator has added to the ledger.
func (c *Coordinator) followRosters(ctx context.Context) error {
	c.rosters.adding.Lock()
	defer c.rosters.adding.Unlock()
	previous, err := c.rosters.load(ctx, c)
	if err != nil || previous == nil {
		return err
	}
	newer, err := c.Ledger.RosterLinks(ctx, previous.Version)
	if err != nil || len(newer) == 0 {
		return err
	}
	next, err := identity.FollowRosters(previous.Cluster, previous, newer, rosterText(ctx, c.Ledger))
	if err != nil {
		return fmt.Errorf("verify a roster of the ledger: %w", err)
	}
	c.rosters.current.Store(next)
	c.rosters.changed.wake()
	c.endStrangers(previous, next)
	c.Log.InfoContext(ctx, "roster of another coordinator adopted", "version", next.Version)
	return nil
}
