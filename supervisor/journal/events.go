package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"writ"
	"writ/internal/failpoint"
)

// AddEvents appends events; they get their numbers and their time with the commit of what they tell. What they point to must not be changed
// any more: whoever reads them soon gets the same.
func (tx *Tx) AddEvents(events ...writ.Event) { tx.events = append(tx.events, events...) }

// eventsTogether is how many bytes of events share a row, if one alone does not have more.
const eventsTogether = 16 << 10

// settleEvents writes the events of the batch: those that follow each other stand in one row, under the number of the last.
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
	var row bytes.Buffer
	encoder := json.NewEncoder(&row)
	for i, e := range tx.events {
		seq++
		e.Seq, e.Time = seq, tx.Now
		before := row.Len()
		row.WriteByte("[,"[min(before, 1)])
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		tx.told = append(tx.told, toldEvent{e, row.Len() - before})
		if i < len(tx.events)-1 && row.Len() < eventsTogether {
			continue
		}
		row.WriteByte(']')
		if err := tx.exec(`INSERT INTO events (seq, body) VALUES ($1, $2)`, seq, bytes.Clone(row.Bytes())); err != nil {
			return err
		}
		row.Reset()
	}
	tx.events = nil
	return nil
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
	for len(events) < max && rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		some, err := decodeEvents(body)
		if err != nil {
			return nil, err
		}
		events = append(events, slices.DeleteFunc(some, func(e writ.Event) bool { return e.Seq <= after })...)
	}
	return events[:min(len(events), max)], rows.Err()
}

// decodeEvents decodes a row. In those of earlier versions there is one event, and no list.
func decodeEvents(body []byte) (events []writ.Event, err error) {
	if bytes.HasPrefix(body, []byte("{")) {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	if err = json.Unmarshal(body, &events); err == nil && len(events) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	return events, nil
}

// Acknowledge records that a coordinator has everything up to seq. It implements link.EventSource.
func (j *Journal) Acknowledge(ctx context.Context, coordinator string, seq int64) error {
	return j.Write(failpoint.At(ctx, failpoint.EventsConfirmed), func(tx *Tx) error {
		return tx.exec(`INSERT INTO acknowledgements (coordinator, seq) VALUES ($1, $2)
			ON CONFLICT (coordinator) DO UPDATE SET seq = excluded.seq WHERE acknowledgements.seq < excluded.seq`, coordinator, seq)
	})
}
