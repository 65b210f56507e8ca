package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"writ"
	"writ/internal/failpoint"
)

// AddEvents appends events; they get their numbers and their time with the commit of what they tell. What they point to must not be changed
// any more: whoever reads them soon gets the same.
func (tx *Tx) AddEvents(events ...writ.Event) { tx.events = append(tx.events, events...) }

// eventsAtOnce is how many rows one statement adds: a power of two, and the powers below it for what is left.
const eventsAtOnce = 16

// settleEvents writes the events of the batch.
func (tx *Tx) settleEvents() error {
	if len(tx.events) == 0 {
		return nil
	}
	var last int64
	err := tx.QueryRowContext(tx.ctx, `UPDATE event_counter SET seq = seq + $1 WHERE only_row = 1 RETURNING seq`, len(tx.events)).Scan(&last)
	if err != nil {
		return err
	}
	seq := last - int64(len(tx.events))
	rest := tx.events
	for n := eventsAtOnce; n > 0; n /= 2 {
		for ; len(rest) >= n; rest = rest[n:] {
			rows := make([]any, 0, 2*n)
			for _, e := range rest[:n] {
				seq++
				e.Seq, e.Time = seq, tx.Now
				body, err := json.Marshal(e)
				if err != nil {
					return fmt.Errorf("encode event: %w", err)
				}
				rows = append(rows, seq, body)
				tx.told = append(tx.told, toldEvent{e, len(body)})
			}
			if err := tx.exec(insertEvents(n), rows...); err != nil {
				return err
			}
		}
	}
	tx.events = nil
	return nil
}

// insertEvents is the statement that adds n events.
func insertEvents(n int) string {
	rows := "($1, $2)"
	for i := 1; i < n; i++ {
		rows += fmt.Sprintf(", ($%d, $%d)", 2*i+1, 2*i+2)
	}
	return `INSERT INTO events (seq, body) VALUES ` + rows
}

// Events returns at most max events after a sequence number, in order, waiting until there is one or ctx ends. They are shared with whoever
// else reads them and must not be changed. It implements link.EventSource.
func (j *Journal) Events(ctx context.Context, after int64, max int) ([]writ.Event, error) {
	for {
		id := j.ID() // before they are read: whoever began under it is told nothing of a later history under its name
		events, known, grown := j.tail.after(after, max)
		if !known {
			var err error
			if events, err = j.events(ctx, after, max); err != nil {
				return nil, err
			}
		}
		if len(events) > 0 {
			for i := range events {
				events[i].Journal = id
			}
			return events, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// events reads events as the journal has them, without its id.
func (j *Journal) events(ctx context.Context, after int64, max int) ([]writ.Event, error) {
	rows, err := j.db.Query(ctx, `SELECT body FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`, after, max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var events []writ.Event
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		e, err := decodeEvent(body)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

func decodeEvent(body []byte) (e writ.Event, err error) {
	if err = json.Unmarshal(body, &e); err != nil {
		err = fmt.Errorf("decode event: %w", err)
	}
	return e, err
}

// Acknowledge records that a coordinator has everything up to seq. It implements link.EventSource.
func (j *Journal) Acknowledge(ctx context.Context, coordinator string, seq int64) error {
	return j.Write(failpoint.At(ctx, failpoint.EventsConfirmed), func(tx *Tx) error {
		return tx.exec(`INSERT INTO acknowledgements (coordinator, seq) VALUES ($1, $2)
			ON CONFLICT (coordinator) DO UPDATE SET seq = excluded.seq WHERE acknowledgements.seq < excluded.seq`, coordinator, seq)
	})
}
