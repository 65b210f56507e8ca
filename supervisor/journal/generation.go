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

// A generation is the sequence of events that an id names. Coordinators rely on it never being told in two ways. A journal that came from a
// backup would do that: it would give numbers again that coordinators know with other events. So it takes a new id then, and what stands in
// the datacenter is told anew. A coordinator whose own store came from a backup, or that lies, gets a generation of its own: see Feed.

// standing is how a journal stands to the events that a coordinator has of it.
type standing int

const (
	agrees  standing = iota // the coordinator can be told the rest
	forgets                 // what comes next is not kept any more
	older                   // the coordinator has what did not happen here: the journal came from a backup
)

// compare says how the journal stands to whoever has the events up to seq, the last of which took place at a time. Time zero is not
// compared.
func (tx *Tx) compare(seq int64, at time.Time) (standing, error) {
	var last int64
	if err := tx.QueryRowContext(tx.ctx, `SELECT seq FROM event_counter`).Scan(&last); err != nil {
		return agrees, err
	}
	oldest := last + 1
	if first, err := tx.eventsFrom(0); err != nil {
		return agrees, err
	} else if len(first) > 0 {
		oldest = first[0].Seq
	}
	switch {
	case seq == 0: // of all that is not told any more, what stands was told again
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
	if i < 0 || at.IsZero() || events[i].Time.Equal(at) { // without it, it is forgotten, as the one before the oldest
		return agrees, nil
	}
	return older, nil
}

// eventsFrom returns the events of the row that has one with this number, or else of the first row after it; none if there is none.
func (tx *Tx) eventsFrom(seq int64) ([]writ.Event, error) {
	var last int64
	var body []byte
	err := tx.QueryRowContext(tx.ctx, `SELECT seq, body FROM events WHERE seq >= $1 ORDER BY seq LIMIT 1`, seq).Scan(&last, &body)
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
	return decodeEvents(encoded)
}

// MarkRestored has a journal that a supervisor serves with count as one that came from a backup from now on: every coordinator is told its events
// under a new id, beginning with what stands.
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
	if err == nil {
		j.reconcileUntil.Store(max(until, j.reconcileUntil.Load())) // until is 0 if somebody else was first
		j.tail.forget()
		j.restated.Add(1)
	}
	return err
}

// Restated counts how often the journal told again what stands since it was opened. What is told of a node then is how it joined.
func (j *Journal) Restated() int64 { return j.restated.Load() }

// restate tells of everything that stands: nodes, resources, open runs and their calls.
func (tx *Tx) restate() error {
	var told int64
	if err := tx.QueryRowContext(tx.ctx, `SELECT seq + 1 FROM event_counter`).Scan(&told); err != nil {
		return err
	}
	told += int64(len(tx.events)) // which get their numbers before these
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
		r.Values = nil // only from the datacenter itself
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
	run.Output = nil // only from the datacenter itself, as the values of resources
	events := []writ.Event{{Run: &run.Run}}
	for _, c := range calls {
		events = append(events, writ.Event{Call: &c.Call})
	}
	tx.AddEvents(events...)
	return nil
}
