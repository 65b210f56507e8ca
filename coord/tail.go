package coord

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"writ/coord/api"
	"writ/ledger"
)

const (
	tailBytes = 16 << 20 // that the tail keeps; whoever is further behind reads the ledger
	tailPage  = 500      // events that are read at once
	tailRetry = time.Second
)

// tail is the newest part of the ledger's events, read once for all open streams and encoded once. It begins with the first stream and is
// dropped with the last one.
type tail struct {
	ledger  ledger.Ledger
	log     *slog.Logger
	stored  func() <-chan struct{} // closed when something is stored after the call
	limit   int                    // tailBytes
	grown   broadcast              // there is more to see
	watched chan struct{}          // holds a token when the first stream has come

	mu       sync.Mutex
	watchers int
	ready    bool // the rest is valid
	// Every event with an id after from, up to to, is in notes, oldest first.
	from, to int64
	notes    []note
	size     int // of notes, in bytes
}

// note is an event as streams need it.
type note struct {
	event *ledger.Event // for filters
	text  []byte        // the message, nobody changes it
}

// size is about what a note takes: its contents are there twice.
func (n note) size() int { return 256 + 2*len(n.text) }

// noteOf encodes an event.
func noteOf(e ledger.Event) (note, error) {
	var text bytes.Buffer
	if _, err := (&api.Message{ID: e.ID, Event: eventView(e)}).WriteTo(&text); err != nil {
		return note{}, fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	return note{&e, text.Bytes()}, nil
}

// run reads what is new until ctx ends, as long as there are streams.
func (t *tail) run(ctx context.Context) error {
	for {
		stored := t.stored() // first: what comes while it reads is found the next time
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

// read takes in what was stored since the last time.
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
		events, more, err := t.ledger.Events(ctx, to, ledger.EventFilter{}, tailPage)
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

// begin lets the tail begin after an event.
func (t *tail) begin(newest int64) {
	t.mu.Lock()
	if t.watchers > 0 {
		t.ready, t.from, t.to = true, newest, newest
	}
	t.mu.Unlock()
	t.grown.wake()
}

// add appends the events that follow one, unless all streams have gone meanwhile, and drops the oldest that there is no room for.
func (t *tail) add(after int64, notes []note) {
	t.mu.Lock()
	if t.ready && t.to == after {
		for _, n := range notes {
			t.notes = append(t.notes, n)
			t.size += n.size()
			t.to = n.event.ID
		}
		for t.size > t.limit {
			t.from = t.notes[0].event.ID
			t.size -= t.notes[0].size()
			t.notes[0] = note{}
			t.notes = t.notes[1:]
		}
	}
	t.mu.Unlock()
	t.grown.wake()
}

// watch lets the tail be kept until release is called.
func (t *tail) watch() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers++; t.watchers == 1 {
		select {
		case t.watched <- struct{}{}:
		default:
		}
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.watchers--; t.watchers == 0 {
			t.ready, t.notes, t.size = false, nil, 0
		}
	}
}

// after returns at most max of the selected events after one, and up to which event that is all of them. If it does not go back so far it
// returns false, and up to which event it has read: all of those are in the ledger.
func (t *tail) after(id int64, filter ledger.EventFilter, max int) (notes []note, upTo int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready {
		return nil, 0, false
	}
	if id < t.from {
		return nil, t.to, false
	}
	first := sort.Search(len(t.notes), func(i int) bool { return t.notes[i].event.ID > id })
	for _, n := range t.notes[first:] {
		if filter.Selects(n.event) {
			notes = append(notes, n)
		}
		if len(notes) == max {
			return notes, n.event.ID, true
		}
	}
	return notes, t.to, true
}
