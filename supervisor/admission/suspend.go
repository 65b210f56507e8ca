package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/runner/queue"
	"writ/supervisor/misuse"
)

const (
	// suspendFirst is the first suspension of a node's queue account after misuse of the queue. It doubles with each
	// misuse within suspendForget, up to suspendMost.
	suspendFirst  = 30 * time.Second
	suspendMost   = 30 * time.Minute
	suspendForget = time.Hour
)

// suspension is the suspension of a node from the queue.
type suspension struct {
	until time.Time     // by the monotonic clock
	last  time.Duration // duration of the suspension
	why   *writ.Error
	off   bool // in effect now
}

// survey checks the queue for misuse by nodes. A node that exceeds its share loses its queue contents and, for a while,
// its account. At the first survey only the contents are removed, because they may have accumulated while no supervisor
// ran. The caller holds mu.
func (a *Accounts) survey(ctx context.Context) {
	looking, cancel := context.WithTimeout(ctx, applyWithin)
	found, err := a.Queue.Survey(looking)
	cancel()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && len(found) == 0 {
		return // package watch reports that the queue is away
	}
	first := !a.surveyed
	a.surveyed = true
	ctx, cancel = context.WithTimeout(ctx, applyWithin)
	defer cancel()
	for _, f := range found {
		switch f.Offence {
		case queue.OverBudget:
			why := writ.Errorf(writ.CodeQueueBudget,
				"it had %d MiB in %d entries in the queue; %d MiB and %d entries are allowed",
				f.Bytes>>20, f.Count, queue.BudgetBytes>>20, queue.BudgetEntries)
			if f.What != "" {
				why.Message = f.What
			}
			a.suspend(ctx, f.Node, why, first)
		case queue.TooMany:
			a.suspend(ctx, f.Node,
				writ.Errorf(writ.CodeQueueBudget, "it had %d connections to the queue, and too few were left; %d are allowed",
					f.Count, queue.BudgetConnections), first)
		case queue.Oversize:
			a.Warnings.Refused(f.Node, "messages of a node are too large; they are discarded unread",
				writ.Errorf(writ.CodeTooLarge, "%d messages have %d bytes", f.Count, f.Bytes))
		case queue.WrongType:
			a.Warnings.Refused(f.Node, "queue key of a node had a wrong type; it was replaced",
				writ.Errorf(writ.CodeQueueBudget, "%s", f.What))
		case queue.TooFast:
			a.Warnings.Refused(f.Node, "node sends too much; its messages wait",
				misuse.TooOften("the waiting messages exceed one scan"))
		}
	}
}

// suspendMisuse suspends the nodes that sent too many useless messages, and the blocked nodes. The caller holds mu.
func (a *Accounts) suspendMisuse(ctx context.Context) {
	for node, why := range a.Misuse.Take() {
		a.suspend(ctx, node, why, false)
	}
}

// suspend disables the account of a node, unless letOff is set. In any case it removes the node's queue contents. The
// caller holds mu.
func (a *Accounts) suspend(ctx context.Context, node writ.NodeID, why *writ.Error, letOff bool) {
	if _, known := a.Fleet.Members.Get(node); !known {
		letOff = true // contents that a removed node left
	}
	switch was := a.suspended[node]; {
	case letOff || a.lacking:
		a.Warnings.Refused(node, "queue content of a node removed", why)
	case was != nil && was.off: // more contents of the node arrived after the first scan
	default:
		a.disableAccount(ctx, node, why, time.Now())
	}
	if err := a.Queue.Clear(ctx, node); err != nil && ctx.Err() == nil {
		a.Warnings.Warn(node, "remove the queue content of a node", "err", err)
	}
}

// disableAccount disables a node's account, longer each time. The caller holds mu.
func (a *Accounts) disableAccount(ctx context.Context, node writ.NodeID, why *writ.Error, now time.Time) {
	next := &suspension{last: suspendFirst, why: why, off: true}
	if was := a.suspended[node]; was != nil && now.Sub(was.until) < suspendForget {
		next.last = min(2*was.last, suspendMost)
	}
	next.until = now.Add(next.last)
	a.suspended[node] = next
	a.Log.Error("node is blocked from the queue", "node", a.Fleet.Members.Name(node), "for", next.last, "code", why.Code,
		"why", why.Message)
	a.Fleet.Presence.Suspend(node, fmt.Sprintf("%s: %s; its account is off until %s UTC", why.Code, why.Message,
		a.Now().Add(next.last).UTC().Format(time.TimeOnly)))
	_ = a.apply(ctx) // apply records its error and is retried
}

// endSuspensions enables the accounts of nodes whose suspension is over. The caller holds mu.
func (a *Accounts) endSuspensions(now time.Time) {
	for node, s := range a.suspended {
		switch {
		case s.off && !now.Before(s.until):
			s.off = false
			delete(a.passwords, node)
			delete(a.signed, node)
			a.Fleet.Presence.Suspend(node, "")
			a.Log.Info("node is admitted to the queue again", "node", a.Fleet.Members.Name(node))
		case !s.off && now.Sub(s.until) > suspendForget:
			delete(a.suspended, node)
		}
	}
}
