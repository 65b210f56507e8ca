package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"writ"
	"writ/internal/broadcast"
	"writ/internal/sqldb"
)

// AddEvents appends events. The commit gives them their numbers and time. Until then, values that they point to must
// not change.
func (tx *Tx) AddEvents(events ...writ.Event) { tx.events = append(tx.events, events...) }

// lastEvent returns the number of the last event.
func lastEvent(tx *Tx) (int64, error) {
	return sqldb.First[int64](tx.QueryRowContext(tx.ctx, `SELECT seq FROM event_counter`))
}

// eventsTogether is the size in bytes at which a row of events is full.
const eventsTogether = 16 << 10

// writeEvents writes the events of the batch. Consecutive events share a row, whose key is the number of its last
// event. Events are encoded only here, since links send the stored bytes.
func (tx *Tx) writeEvents() error {
	if len(tx.events) == 0 {
		return nil
	}
	var last int64
	err := tx.QueryRowContext(tx.ctx, `UPDATE event_counter SET seq = seq + $1 WHERE only_row = 1 RETURNING seq`,
		len(tx.events)).Scan(&last)
	if err != nil {
		return err
	}
	seq := last - int64(len(tx.events))
	for rest := tx.events; len(rest) > 0; {
		some, row, err := tx.eventRow(rest, seq)
		if err != nil {
			return err
		}
		rest, seq = rest[len(some):], seq+int64(len(some))
		if err := tx.exec(`INSERT INTO events (seq, body) VALUES ($1, $2)`, seq, row); err != nil {
			return err
		}
		tx.told = append(tx.told, some...)
	}
	tx.events = nil
	return nil
}

// eventRow encodes events from the start of the list until a row is full. It returns the encoded events and the row.
// seq is the number of the event before the start of the list.
func (tx *Tx) eventRow(events []writ.Event, seq int64) (some []writ.EncodedEvent, row []byte, err error) {
	const mostly = 512 // usual size of an event in bytes
	row = make([]byte, 0, min(mostly*len(events), eventsTogether+mostly))
	ends := make([]int, 0, len(events))
	for i := range events {
		row = append(row, "[,"[min(len(row), 1)])
		e := events[i]
		e.Seq, e.Time = seq+int64(i)+1, tx.Now
		begin := len(row)
		if row, err = appendEvent(row, &e); err != nil {
			return nil, nil, err
		}
		if len(row)-begin > MaxSaid && Shorten(&e) {
			if row, err = appendEvent(row[:begin], &e); err != nil {
				return nil, nil, err
			}
		}
		ends = append(ends, len(row))
		if len(row) >= eventsTogether {
			break
		}
	}
	row = append(row, ']')
	some = make([]writ.EncodedEvent, len(ends))
	begin := 1
	for i, end := range ends {
		some[i] = writ.EncodedEvent{Seq: seq + int64(i) + 1, JSON: row[begin:end:end]}
		begin = end + 1
	}
	return some, row, nil
}

// eventLog reads the events of a journal and holds the IDs of its generations.
type eventLog struct {
	db       *sqldb.DB
	tail     *tail
	id       atomic.Pointer[string] // of the current generation
	restated atomic.Int64           // see Restated

	mu    sync.Mutex
	feeds map[string]string // generations of single coordinators, by URL
}

// ID returns the journal's ID. Together with an event's sequence number it identifies the event permanently; a journal
// restored from a backup takes a new ID.
func (l *eventLog) ID() string { return *l.id.Load() }

// of returns the ID of the generation that a coordinator receives.
func (l *eventLog) of(coordinator string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, own := l.feeds[coordinator]; own {
		return id
	}
	return l.ID()
}

// setFeed begins a generation for one coordinator.
func (l *eventLog) setFeed(coordinator, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feeds[coordinator] = id
}

// setFeeds replaces the generations of single coordinators.
func (l *eventLog) setFeeds(feeds map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feeds = feeds
}

// Restated returns how often the journal has sent its whole state again since it was opened. The repeated event about a
// node has the state at its joining, so an event with its present state must follow.
func (l *eventLog) Restated() int64 { return l.restated.Load() }

// await returns at most max events after a sequence number, in order. It waits until such an event exists or ctx ends.
// The events are shared with other readers and must not be changed.
func (l *eventLog) await(ctx context.Context, after int64, max int) ([]writ.EncodedEvent, error) {
	for {
		events, known, grown := l.tail.after(after, max)
		if !known {
			var err error
			if events, err = l.events(ctx, after, max); err != nil {
				return nil, err
			}
		}
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Events returns at most max events after a sequence number, in order, with the journal's ID. It waits until such an
// event exists or ctx ends.
func (l *eventLog) Events(ctx context.Context, after int64, max int) ([]writ.Event, error) {
	id := l.ID()
	encoded, err := l.await(ctx, after, max)
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(encoded)
	for i := range events {
		events[i].Journal = id
	}
	return events, err
}

// events reads events from the store.
func (l *eventLog) events(ctx context.Context, after int64, max int) ([]writ.EncodedEvent, error) {
	rows, err := l.db.Query(ctx, `SELECT seq, body FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`, after, max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var events []writ.EncodedEvent
	for len(events) < max && rows.Next() {
		var last int64
		var body []byte
		if err := rows.Scan(&last, &body); err != nil {
			return nil, err
		}
		some, err := splitEvents(last, body)
		if err != nil {
			return nil, err
		}
		events = append(events, slices.DeleteFunc(some, func(e writ.EncodedEvent) bool { return e.Seq <= after })...)
	}
	return events[:min(len(events), max)], rows.Err()
}

// unreadableEvents is the error of a row of events that cannot be decoded.
type unreadableEvents struct {
	last int64 // number of the row
	err  error
}

func (e *unreadableEvents) Error() string {
	return fmt.Sprintf("decode events up to %d: %v", e.last, e.err)
}

func (e *unreadableEvents) Unwrap() error { return e.err }

// splitEvents returns the events of a row; last is the number of its last event.
func splitEvents(last int64, body []byte) ([]writ.EncodedEvent, error) {
	var texts []json.RawMessage
	err := json.Unmarshal(body, &texts)
	if err == nil && len(texts) == 0 {
		err = errors.New("the list is empty")
	}
	if err != nil {
		return nil, &unreadableEvents{last, err}
	}
	events := make([]writ.EncodedEvent, len(texts))
	for i, text := range texts {
		events[i] = writ.EncodedEvent{Seq: last - int64(len(texts)-1-i), JSON: text}
	}
	return events, nil
}

func decodeEvents(encoded []writ.EncodedEvent) ([]writ.Event, error) {
	events := make([]writ.Event, len(encoded))
	for i, e := range encoded {
		if err := json.Unmarshal(e.JSON, &events[i]); err != nil {
			return nil, fmt.Errorf("decode event %d: %w", e.Seq, err)
		}
	}
	return events, nil
}

// Limits of the events in memory: several times the events in flight on a link. Readers that are further behind read
// the store.
const (
	maxTail      = 1024
	maxTailBytes = 2 << 20 // encoded size
)

// tail holds the newest events, so that followers need not read them from the store.
type tail struct {
	mu     sync.Mutex
	events []writ.EncodedEvent // consecutive, oldest first
	bytes  int
	grown  broadcast.Signal // wakes when events are added
}

// add appends the events of a commit.
func (t *tail) add(events []writ.EncodedEvent) {
	if len(events) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// If there is a gap, another process wrote the missing events.
	if n := len(t.events); n > 0 && t.events[n-1].Seq+1 != events[0].Seq {
		t.drop(n)
	}
	t.events = append(t.events, events...)
	for _, e := range events {
		t.bytes += len(e.JSON)
	}
	for len(t.events) > maxTail || t.bytes > maxTailBytes {
		t.drop(1)
	}
	t.grown.Wake()
}

// after returns at most max events after seq, and a channel that is closed when events are added. `known` is false if
// the event after seq may be older than the tail; the caller must then read the store.
func (t *tail) after(seq int64, max int) (events []writ.EncodedEvent, known bool, grown <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) == 0 || seq+1 < t.events[0].Seq {
		return nil, false, t.grown.Next()
	}
	from := min(int(seq+1-t.events[0].Seq), len(t.events))
	return slices.Clone(t.events[from:min(from+max, len(t.events))]), true, t.grown.Next()
}

// forget drops all events; the next reader uses the store.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(len(t.events))
}

// drop drops the n oldest events. The caller holds mu.
func (t *tail) drop(n int) {
	for _, e := range t.events[:n] {
		t.bytes -= len(e.JSON)
	}
	clear(t.events[:n]) // releases the events before the slice is reallocated
	t.events = t.events[n:]
}
