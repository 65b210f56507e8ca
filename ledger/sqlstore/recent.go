package sqlstore

import (
	"context"
	"sort"
	"sync"

	"writ/internal/sqldb"
	"writ/ledger"
)

// maxRecentBytes limits recentEvents. At 14,000 events a second, this is about half a second.
const maxRecentBytes = 4 << 20

// recentEvents holds the newest events in memory, exactly as they were stored. A reader that needs only these events does
// not query the database. Events are added after their commit, in the order of their ids.
type recentEvents struct {
	// shared is whether other processes store events in the same database. Then events up to `to` are complete, but there
	// may be newer ones.
	shared bool
	limit  int // in bytes, maxRecentBytes

	mu sync.Mutex
	// events has all events with ids above `from` and at most `to`, oldest first. If both are -1, no event was stored yet
	// by this process.
	from, to int64
	events   []ledger.EncodedEvent
	size     int // of the events, in bytes
}

func newRecentEvents(shared bool) *recentEvents {
	return &recentEvents{shared: shared, limit: maxRecentBytes, from: -1, to: -1}
}

// newEvents are the events that the changes of a batch store or delete.
type newEvents struct {
	first, next int64 // the ids from first to before next are reserved
	events      []ledger.EncodedEvent
	pruned      bool // old events are deleted
}

// join makes the batch of a transaction add its events to r after the commit. It must be called before the first
// statement of a change.
func (r *recentEvents) join(ctx context.Context, tx *sqldb.Tx) error {
	if tx.Batch.Common != nil {
		return nil
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, newestID).Scan(&newest); err != nil {
		return err
	}
	n := &newEvents{first: newest + 1, next: newest + 1}
	tx.Batch.Common, tx.Batch.Done = n, func() { r.add(n) }
	return nil
}

// newEventsOf returns the new events of a transaction that join was called for.
func newEventsOf(tx *sqldb.Tx) *newEvents { return tx.Batch.Common.(*newEvents) }

// reserve reserves consecutive event ids and returns the first.
func (n *newEvents) reserve(ids int) int64 {
	first := n.next
	n.next += int64(ids)
	return first
}

func (n *newEvents) add(e ledger.EncodedEvent) { n.events = append(n.events, e) }

// add adds committed events. If the ids since the last call have a gap, another process stored the events of the gap,
// and the recent events begin again after it. They also begin again after events were deleted.
func (r *recentEvents) add(n *newEvents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.next > n.first {
		if r.to != n.first-1 {
			r.clear(n.first - 1)
		}
		for _, e := range n.events {
			r.events = append(r.events, e)
			r.size += recentSize(e)
		}
		r.to = n.next - 1
	}
	if n.pruned {
		r.clear(r.to)
	}
	for r.size > r.limit {
		r.from = r.events[0].ID
		r.size -= recentSize(r.events[0])
		r.events[0] = ledger.EncodedEvent{}
		r.events = r.events[1:]
	}
}

// clear removes all events and begins after the event `to`. The caller holds the lock.
func (r *recentEvents) clear(to int64) {
	r.from, r.to, r.events, r.size = to, to, nil, 0
}

// recentSize estimates the memory of an event in bytes.
func recentSize(e ledger.EncodedEvent) int { return 200 + len(e.JSON) }

// after returns at most max selected events with ids above id, and whether more may follow. ok is false if the database
// must be read.
func (r *recentEvents) after(
	id int64, filter ledger.EventFilter, max int,
) (found []ledger.EncodedEvent, more, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id < r.from || id > r.to || r.to < 0 {
		return nil, false, false
	}
	first := sort.Search(len(r.events), func(i int) bool { return r.events[i].ID > id })
	found = []ledger.EncodedEvent{}
	for i, bytes := first, 0; i < len(r.events); i++ {
		if len(found) == max || bytes >= maxPageBytes {
			return found, true, true
		}
		if e := &r.events[i]; filter.SelectsEncoded(e) {
			found = append(found, *e)
			bytes += len(e.JSON)
		}
	}
	// Other processes may have stored newer events. An empty list would end the read of a caller.
	return found, r.shared, len(found) > 0 || !r.shared
}

// upTo returns the newest event that a reader can get, given the newest event of the database. `after` answers from
// memory alone if no other process stores events.
func (r *recentEvents) upTo(newest int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared || r.to < 0 {
		return newest
	}
	return min(newest, r.to)
}
