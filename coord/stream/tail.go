package stream

import (
	"context"
	"log/slog"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/broadcast"
	"writ/ledger"
)

const (
	tailBytes = 16 << 20 // limit of the tail; readers that are further behind read the ledger
	tailPage  = 500      // events per read of the ledger
	tailRetry = time.Second
)

// tail holds the newest events of the ledger, made into messages once for all open streams. Without an open stream, it
// is empty.
type tail struct {
	ledger  Ledger
	log     *slog.Logger
	stored  func() <-chan struct{} // returns a channel that is closed when the ledger stores further events
	limit   int                    // in bytes, tailBytes
	watched chan struct{}          // receives a token when the first stream opens

	mu       sync.RWMutex
	watchers int
	groups   map[writ.RunID]*group // of the open streams
	ready    bool                  // the fields below are valid
	// notes has every event with an id above `from` and at most `to`, oldest first.
	from, to int64
	notes    []note
	size     int // size of notes, in bytes
}

// group describes the open streams of one run. The other streams have the group with an empty id. A stream of a run
// wakes up only for events of its run.
type group struct {
	grown   broadcast.Signal // signals that the tail has more events for the group
	streams atomic.Int64
	// The tail has read all events after `from` since the group exists. The last one about the run is `last`, or earlier.
	from, last int64
}

// run reads new events until ctx ends. It does not read while no stream is open.
func (t *tail) run(ctx context.Context) error {
	for {
		stored := t.stored() // before the read, so that rows stored during it are found next time
		var again <-chan time.Time
		if err := t.read(ctx); err != nil && ctx.Err() == nil {
			t.log.WarnContext(ctx, "read the events of the ledger; trying again", "err", err, "retry_in", tailRetry)
			again = time.After(tailRetry)
		}
		select {
		case <-stored:
		case <-t.watched:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// read appends the events that were stored since the last read.
func (t *tail) read(ctx context.Context) error {
	t.mu.Lock()
	watched, ready, to := t.watchers > 0, t.ready, t.to
	t.mu.Unlock()
	if !watched {
		return nil
	}
	if !ready {
		_, newest, err := t.ledger.EventRange(ctx)
		if err == nil {
			t.begin(newest)
		}
		return err
	}
	for {
		events, more, err := t.ledger.EncodedEvents(ctx, to, ledger.EventFilter{}, tailPage)
		if err != nil || len(events) == 0 {
			return err
		}
		notes := make([]note, len(events))
		for i, e := range events {
			if notes[i], err = noteOf(e); err != nil {
				return err
			}
		}
		t.add(to, notes)
		if to = events[len(events)-1].ID; !more {
			return nil
		}
	}
}

// begin starts the tail after an event.
func (t *tail) begin(newest int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers > 0 {
		t.ready, t.from, t.to = true, newest, newest
	}
	for _, g := range t.groups {
		g.from, g.last = newest, newest
		g.grown.Wake()
	}
}

// add appends the events after event `after`, unless all streams ended meanwhile, and drops the oldest events beyond
// the limit.
func (t *tail) add(after int64, notes []note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready || t.to != after {
		return
	}
	for _, n := range notes {
		t.notes = append(t.notes, n)
		t.size += n.size()
		t.to = n.event.ID
		if g := t.groups[n.event.About]; g != nil {
			g.last = t.to
		}
	}
	for t.size > t.limit {
		t.from = t.notes[0].event.ID
		t.size -= t.notes[0].size()
		t.notes[0] = note{}
		t.notes = t.notes[1:]
	}
	for run, g := range t.groups {
		if run == "" || g.last > after {
			g.grown.Wake()
		}
	}
}

// watch registers a stream of a run, or of no single run if `run` is empty. The tail is kept until all streams have
// called release.
func (t *tail) watch(run writ.RunID) (g *group, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g = t.groups[run]; g == nil {
		g = &group{from: t.to, last: t.to}
		if t.groups == nil {
			t.groups = make(map[writ.RunID]*group)
		}
		t.groups[run] = g
	}
	g.streams.Add(1)
	if t.watchers++; t.watchers == 1 {
		select {
		case t.watched <- struct{}{}:
		default:
		}
	}
	return g, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if g.streams.Add(-1) == 0 {
			delete(t.groups, run)
		}
		if t.watchers--; t.watchers == 0 {
			t.ready, t.notes, t.size = false, nil, 0
		}
	}
}

// after returns at most max selected events after event id. The result is complete up to event upTo. If the tail starts
// after event id, ok is false and upTo is the newest event that the tail has read. The ledger has all events up to
// upTo.
func (t *tail) after(id int64, filter ledger.EventFilter, max int) (notes []note, upTo int64, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.ready {
		return nil, 0, false
	}
	if g := t.groups[filter.Run]; filter.Run != "" && g != nil && id >= g.from && id >= g.last {
		return nil, t.to, true
	}
	if id < t.from {
		return nil, t.to, false
	}
	first := sort.Search(len(t.notes), func(i int) bool { return t.notes[i].event.ID > id })
	for i := first; i < len(t.notes); i++ {
		n := &t.notes[i]
		if filter.SelectsEncoded(&n.event) {
			notes = append(notes, *n)
		}
		if len(notes) == max {
			return notes, n.event.ID, true
		}
	}
	return notes, t.to, true
}
