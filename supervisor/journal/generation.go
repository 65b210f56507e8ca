package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"writ"
	"writ/internal/failpoint"
)

// A generation is a sequence of events with an ID. Within a generation, each number names one event. A journal restored
// from a backup would break this rule: it would give new events the numbers of lost events that coordinators already
// have. So the journal takes a new ID and sends the whole state again. A coordinator gets its own generation if its
// store came from a backup or it makes false claims: see Feed.

// standing is the relation of a journal to the events that a coordinator has.
type standing int

const (
	agrees  standing = iota // the following events can be sent
	forgets                 // the following events are no longer stored
	older                   // the coordinator has events that this journal lacks: the journal came from a backup
)

// compare returns the standing of the journal to a coordinator that has the events up to seq. `at` is the time of event
// seq; a zero time is not compared.
func (tx *Tx) compare(seq int64, at time.Time) (standing, error) {
	last, err := lastEvent(tx)
	if err != nil {
		return agrees, err
	}
	oldest := last + 1
	if first, err := tx.eventsFrom(0); err != nil {
		return agrees, err
	} else if len(first) > 0 {
		oldest = first[0].Seq
	}
	switch {
	case seq == 0: // deleted events are not needed if the whole state was sent again after them
		restated, err := tx.number(metaHistory)
		if oldest == 1 || restated >= oldest {
			return agrees, err
		}
		return forgets, err
	case seq > last:
		return older, nil
	case seq+1 < oldest:
		return forgets, nil
	}
	events, err := tx.eventsFrom(seq)
	if err != nil {
		return agrees, err
	}
	i := slices.IndexFunc(events, func(e writ.Event) bool { return e.Seq == seq })
	if i < 0 || at.IsZero() || events[i].Time.Equal(at) { // a deleted event cannot be compared
		return agrees, nil
	}
	return older, nil
}

// eventsFrom returns the events of the row that contains the event seq. If this event was deleted, it returns the
// events of the next row, or nil after the last row.
func (tx *Tx) eventsFrom(seq int64) ([]writ.Event, error) {
	var last int64
	var body []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT seq, body FROM events WHERE seq >= $1 ORDER BY seq LIMIT 1`, seq).Scan(&last,
		&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	encoded, err := splitEvents(last, body)
	if err != nil {
		return nil, err
	}
	events, err := decodeEvents(encoded)
	if err != nil {
		return nil, &unreadableEvents{last, err}
	}
	return events, nil
}

// MarkRestored marks the journal of a running supervisor as restored from a backup. Every coordinator then receives its
// events under a new ID, starting with the whole state.
func (j *Journal) MarkRestored(ctx context.Context) error {
	old := j.ID()
	var id string
	var until int64
	err := j.Write(failpoint.At(ctx, failpoint.GenerationBegun), func(tx *Tx) (err error) {
		if id, err = tx.meta(metaJournal); err != nil || id != old {
			return err
		}
		id = writ.NewUUID()
		if err := tx.setMeta(metaJournal, id); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM acknowledgements`); err != nil {
			return err
		}
		if err := tx.exec(`DELETE FROM meta WHERE name LIKE $1`, feedPrefix+"%"); err != nil {
			return err
		}
		if err := tx.beginReconciliation(tx.Now); err != nil {
			return err
		}
		if until, err = tx.number(metaReconcile); err != nil {
			return err
		}
		tx.Then(func() {
			j.id.Store(&id)
			j.setFeeds(map[string]string{})
		})
		return tx.restate()
	})
	if err == nil { // also if a concurrent call has changed the ID first: that call may not have reached this point yet
		j.reconcileUntil.Store(max(until, j.reconcileUntil.Load())) // until is 0 after a concurrent change
		j.tail.forget()
		j.restated.Add(1)
	}
	return err
}

// restate adds events with the whole state: nodes, resources, open runs and their calls.
func (tx *Tx) restate() error {
	last, err := lastEvent(tx)
	if err != nil {
		return err
	}
	told := last + int64(len(tx.events)) + 1 // the events of this transaction get their numbers first
	if err := tx.setMeta(metaHistory, strconv.FormatInt(told, 10)); err != nil {
		return err
	}
	nodes, err := tx.Nodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		tx.AddEvents(writ.Event{Node: &n.Node})
	}
	resources, err := tx.Resources()
	if err != nil {
		return err
	}
	for _, r := range resources {
		r.Values = nil // only the datacenter itself returns them
		tx.AddEvents(writ.Event{Resource: &r.Resource})
	}
	open, err := tx.runIDs(`SELECT id FROM runs WHERE open ORDER BY accepted, id`)
	if err != nil {
		return err
	}
	for _, id := range open {
		if err := tx.restateRun(id); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) restateRun(id writ.RunID) error {
	run, err := tx.Run(id)
	if isForged(err) {
		return nil
	}
	if err != nil {
		return err
	}
	calls, err := tx.Calls(id)
	if err != nil && !isForged(err) {
		return err
	}
	run.Output = nil // only the datacenter itself returns it, like the values of resources
	events := []writ.Event{{Run: &run.Run}}
	for _, c := range calls {
		events = append(events, writ.Event{Call: &c.Call})
	}
	tx.AddEvents(events...)
	return nil
}
